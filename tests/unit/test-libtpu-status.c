/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of the chips out of libtpu's points, and its cores for a capture. */
#include "libtpu.pb-c.h"
#include "libtpu_status.h"
#include "test.h"

#define TEXT(t) ((char *) (uintptr_t) (t))

/* --- Readings and cores -------------------------------------------------------------------------------- */

static void test_reading(void) {
        struct libtpu_reading r = LIBTPU_READING_NULL;
        struct libtpu_point p = { .sample = { .kind = SAMPLE_GAUGE }, .values = { "HANG_DETECTED", "" } };
        const double duty[] = { 0.9, 0.2, 0.7 }, idle[] = { 1, 45, 3 };

        for (size_t i = 0; i < 3; i++) {
                p.sample.d = duty[i];
                libtpu_reading_take(&r, LIBTPU_DUTY_CYCLE, &p);
                p.sample.d = idle[i];
                libtpu_reading_take(&r, LIBTPU_IDLE, &p);
        }
        ASSERT_TRUE(r.duty_cycle == 0.2 && r.idle_seconds == 45 && r.queued == -1 && !r.error);
        p.sample.is_int = true;
        p.sample.i = INT64_MAX;
        libtpu_reading_take(&r, LIBTPU_HLO_QUEUE, &p);
        libtpu_reading_take(&r, LIBTPU_HLO_QUEUE, &p);
        ASSERT_EQ(r.queued, INT64_MAX);
        p.sample.i = 0;
        libtpu_reading_take(&r, LIBTPU_MEGASCALE_ERROR, &p);
        ASSERT_FALSE(r.error);
        p.sample.i = 1;
        libtpu_reading_take(&r, LIBTPU_MEGASCALE_ERROR, &p);
        ASSERT_TRUE(r.error);
        ASSERT_STREQ(r.error_type, "HANG_DETECTED");
}

static size_t pack_cores(uint8_t *buf, const int32_t *ids, size_t n) {
        Libtpu__GetTpuRuntimeStatusResponse m = LIBTPU__GET_TPU_RUNTIME_STATUS_RESPONSE__INIT;
        Libtpu__CurrentCoreStateSummary s = LIBTPU__CURRENT_CORE_STATE_SUMMARY__INIT;
        Libtpu__TpuCoreIdentifier id = LIBTPU__TPU_CORE_IDENTIFIER__INIT;
        Libtpu__SequencerInfo sparse = LIBTPU__SEQUENCER_INFO__INIT, tensor = LIBTPU__SEQUENCER_INFO__INIT,
                              *sequencers[] = { &sparse, &tensor };
        Libtpu__QueuedProgramInfo program = LIBTPU__QUEUED_PROGRAM_INFO__INIT,
                *programs[] = { &program, &program };
        static Libtpu__CoreStateEntry entries[200];
        static Libtpu__CoreStateEntry *list[200];
        static uint8_t fingerprint[40];

        memset(fingerprint, 0xab, sizeof(fingerprint));
        sparse.sequencer_type = 4;
        sparse.pc = 99;
        tensor.sequencer_type = 1;
        tensor.pc = 0x1234;
        tensor.tag = 3;
        tensor.run_id = 77;
        tensor.hlo_location = TEXT("fusion.42\n[model.py:88]");
        id.chip_id = 5;
        s.core_id = &id;
        s.sequencer_info = sequencers;
        s.n_sequencer_info = 2;
        s.launch_id = -12;
        s.program_fingerprint = (ProtobufCBinaryData){ .data = fingerprint, .len = sizeof(fingerprint) };
        s.queued_program_info = programs;
        s.n_queued_program_info = 2;
        s.error_message = TEXT("bad chip");
        for (size_t i = 0; i < n; i++) {
                libtpu__core_state_entry__init(&entries[i]);
                entries[i].key = ids[i];
                entries[i].value = &s;
                list[i] = &entries[i];
        }
        m.core_states = list;
        m.n_core_states = n;
        return libtpu__get_tpu_runtime_status_response__pack(&m, buf);
}

static void test_cores(void) {
        static struct libtpu_status s;
        static uint8_t buf[1 << 20];
        const int32_t first[] = { 3, 1, 3, -2 }, second[] = { 2, 1 };
        _cleanup_libtpu_reader_ struct libtpu_reader r;
        int32_t many[200];

        libtpu_reader_init(&r);
        ASSERT_EQ(libtpu_status_read(&r, buf, pack_cores(buf, first, 4), &s), 2); /* 3 twice, -2 is none */
        ASSERT_EQ(libtpu_status_read(&r, buf, pack_cores(buf, second, 2), &s), 1);
        ASSERT_TRUE(s.n == 3 && s.processes == 2 && !s.cut);
        ASSERT_TRUE(s.cores[0].core == 1 && s.cores[1].core == 2 && s.cores[2].core == 3);
        ASSERT_TRUE(s.cores[0].chip == 5 && s.cores[0].pc == 0x1234 && s.cores[0].tag == 3 &&
                    s.cores[0].run == 77);
        ASSERT_TRUE(s.cores[0].launch == -12 && s.cores[0].queued == 2);
        ASSERT_STREQ(s.cores[0].location, "fusion.42 [model.py:88]");
        ASSERT_EQ(strlen(s.cores[0].fingerprint), 64);
        ASSERT_STREQ(s.cores[2].error, "bad chip");
        for (int32_t i = 0; i < 200; i++)
                many[i] = 199 - i;
        ASSERT_EQ(libtpu_status_read(&r, buf, pack_cores(buf, many, 200), &s), LIBTPU_CORES_MAX - 3);
        ASSERT_TRUE(s.cut && s.n == LIBTPU_CORES_MAX);
        ASSERT_EQ(libtpu_status_read(&r, "\xff", 1, &s), -EBADMSG);
}

TEST_MAIN(test_reading, test_cores)
