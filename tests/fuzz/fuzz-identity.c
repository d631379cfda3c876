/* SPDX-License-Identifier: Apache-2.0 */
/* Any static file of the host's identity, read as every program reads it, and by netcfg for its network; any
 * TPU_PROCESS_ADDRESSES. */
#include "fuzz-root.h"
#include "identity_environment.h"
#include "intent.h"

static const char *const folders[] = { "usr",
                                       "usr/lib",
                                       "usr/lib/tpu-hostd",
                                       "usr/lib/tpu-hostd/profiles",
                                       "etc",
                                       "etc/tpu-hostd",
                                       "etc/tpu-hostd/identity.conf.d",
                                       NULL };
#define PROFILE "[Mtu]\nValue=8896\nSource=fuzz\n"

static void check_identity(const struct host *h) {
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        _cleanup_finding_list_ struct finding_list findings = FINDING_LIST_NULL;
        json_t *json;

        if (identity_load(h, NULL, &i) < 0 || identity_check(&i, &findings) < 0)
                abort();
        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX; f++)
                if (i.fields[f].text && (!i.fields[f].text[0] || !i.fields[f].origin[0]))
                        abort();
        json = identity_to_json(&i);
        if (!json)
                abort();
        json_decref(json);
}

static void check_intent(const struct host *h) {
        static struct intent i;

        if (intent_load(h, NULL, &i) < 0 || (i.network_mtu > 0 && !i.network_mtu_source[0]) ||
            i.mtu != (i.no_tpu ? 0 : 8896))
                abort();
}

static void check_environment(const uint8_t *data, size_t size) {
        char text[2048], bad[128], *environment[] = { text, NULL };
        _cleanup_identity_ struct identity i = IDENTITY_NULL;
        size_t n = 1;

        (void) snprintf(text, sizeof(text), "TPU_PROCESS_ADDRESSES=%.*s", (int) MIN(size, (size_t) 2000),
                        (const char *) data);
        for (const char *p = text; *p; p++)
                n += *p == ',';
        if (identity_add_environment(&i, environment, bad) < 0 ||
            identity_count(&i, IDENTITY_WORKER_HOSTNAMES) > n)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_host_ struct host h = HOST_NULL;

        fuzz_root_open(folders, &h);
        fuzz_root_write(&h, "usr/lib/tpu-hostd/profiles/generic.conf", PROFILE, strlen(PROFILE));
        fuzz_root_write(&h, "etc/tpu-hostd/identity.conf.d/10-fuzz.conf", data, size);
        check_identity(&h);
        check_intent(&h);
        check_environment(data, size);
        return 0;
}
