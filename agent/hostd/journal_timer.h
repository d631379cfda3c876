/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Some file systems give no inotify: sd_journal then says by when to look again. */
#include <systemd/sd-event.h>
#include <systemd/sd-journal.h>

/* Sets *timer, made when there is none yet, to that time, or drops it where none is needed. */
void journal_timer_arm(sd_event *e, sd_journal *j, sd_event_source **timer, const char *name,
                       sd_event_time_handler_t handler, void *userdata);
