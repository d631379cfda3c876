/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The secret variables of a run: never on disk, in no unit, shown by nothing. They are a file of root's in
 * /run/tpu-launchd/secrets (memory), from which systemd makes the run's credential (LoadCredential=): a file
 * in memory that cannot be swapped, which only the run's user can read. "tpu-launchd --exec", which runs as
 * that user, makes variables of it. The file stays as long as the run may be restarted.
 *
 * It is NUL-terminated "KEY=VALUE".
 */
#include "host.h"
#include "local.pb-c.h"
#include "problem.h"

#define SECRETS_CREDENTIAL "tpu-environment" /* its name below $CREDENTIALS_DIRECTORY */
#define SECRETS_MAX 64
#define SECRETS_SIZE_MAX (64 * 1024) /* all together; systemd takes 1 MiB */

/* "KEY=VALUE" of each, NULL-terminated; NULL for none. env: the run's other variables, which must not name
 * one of them. -EINVAL, -E2BIG, -ENOMEM with p, which names a variable and never its value. */
int secrets_from_request(const Local__RunRequest *q, char ***ret, struct problem *p);
/* Overwrites the texts before it frees them. Returns NULL. */
char **secrets_free(char **l);

/* Replaces the file of name. */
int secrets_write(int secrets_fd, const char *name, char *const *secrets);
bool secrets_exist(int secrets_fd, const char *name);
/* It is no error when there is none. */
void secrets_remove(int secrets_fd, const char *name);

/*
 * How many bytes of an argument of a command line are shown to anybody; in place of the rest stands "****".
 * The value of an argument whose name is a secret's (name_is_secret()) is not shown, in one word with it or
 * behind it: --api-key=x, --token x, PASSWORD=x. *ret_follows: the next one is such a value; false before
 * the first.
 */
size_t secrets_shown(const char *argument, bool *ret_follows);

/* In the run's own process: sets the variables of the credential, if there is one. 0 or -errno. */
int secrets_enter(void);
