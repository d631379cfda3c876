/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The container that a process lives in, by its control group: who made it, what people call it, and where
 * its engine writes what it prints. docker and podman have a name and a log; others have an id alone.
 */
#include "host.h"

#define CONTAINER_ID   64 /* hexadecimal digits */
#define CONTAINER_SIZE 80 /* of "docker 0123456789ab" */
#define CONTAINER_NAME_SIZE 129

/* Pure: the engine's name, and where the id of the container begins in the path; NULL: none is named. */
const char *container_find(const char *control_group, const char **ret_id);
/* Pure: "docker 0123456789ab" of a path of control groups; "" when no container is named in it. */
void container_print(const char *control_group, char *buf, size_t size);
/* Pure: a command for people, "sudo docker stop 0123456789ab". False: of docker and podman alone. */
bool container_command(const char *container, const char *verb, char *buf, size_t size);
/*
 * What it was called when it was made (--name). docker keeps it in a file; of podman's it is an argument of
 * conmon, which is the parent of the container's first process. container: as printed. False: nobody says.
 */
bool container_name(const struct host *h, const char *container, const char *id, uint32_t conmon, char *buf,
                    size_t size);
/*
 * Opens the file that its engine writes what the container of this control group prints into, where it does:
 * *ret_form is then "json-file" (docker's default) or "k8s-file" (podman's, where it has no journal).
 * -ENOENT: it is no container's, or that one prints elsewhere (docker's "local" and "journald" are not
 * read). -EACCES: the control group is not root's, as an engine's is: a user to whom systemd has delegated
 * one makes others in it by any name, and by that of another's container.
 */
int container_open_log(const struct host *h, const char *control_group, const char **ret_form);
