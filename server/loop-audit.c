/* loop-audit.c: the audit log (audit-log.h) is written by a thread of libuv's,
 * one job after another, so that a hanging file delays nothing else.
 */

#include <config.h>

#include <signal.h>

#include "audit-log.h"
#include "log.h"
#include "loop-internal.h"

static void
work (uv_work_t *work)
{
  audit_log_write (work->data);
}

static void
after_work (uv_work_t *work, int status)
{
  struct loop *l = (struct loop *) ((char *) work -
                                    offsetof (struct loop, audit_work));
  struct store_txn *t = store_txn_new ();
  bool failed = l->audit_failed;

  l->audit_failed = ((struct audit_job *) work->data)->error[0] != '\0';
  audit_log_end (auth_audit_log (l->auth), work->data, t);
  if (l->audit_failed != failed)
    log_line (failed ? CLUSTER_INFO : CLUSTER_ERROR,
              failed ? "the audit log is written again"
                     : "the audit log cannot be written: weftctl status says "
                       "why");
  if (l->store == NULL) { /* weftd ends */
    store_txn_free (t);
    return;
  }
  steps_store (l, t);
  steps_release (l);
  if (!l->audit_failed)
    loop_audit_write (l);
}

void
loop_audit_write (struct loop *l)
{
  struct audit_job *job = audit_log_begin (auth_audit_log (l->auth),
                                           l->audit_reopen);

  if (job == NULL)
    return;
  l->audit_reopen = false;
  l->audit_work.data = job;
  uv_queue_work (&l->uv, &l->audit_work, work, after_work);
}

static void
on_hangup (uv_signal_t *handle, int signum)
{
  struct loop *l = handle->data;

  l->audit_reopen = true;
  loop_audit_write (l);
}

void
loop_audit_start (struct loop *l)
{
  if (!audit_log_wanted (auth_audit_log (l->auth)))
    return;
  uv_signal_init (&l->uv, &l->sighup);
  l->sighup.data = l;
  uv_signal_start (&l->sighup, on_hangup, SIGHUP);
}

void
loop_audit_end (struct loop *l)
{
  if (l->sighup.data)
    uv_close ((uv_handle_t *) &l->sighup, NULL);
}
