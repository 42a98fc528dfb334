/* commands.h: the functions of commands.c's list. */

#ifndef WEFT_COMMANDS_H
#define WEFT_COMMANDS_H

int cmd_status (struct ctl *ctl, const struct args *args);
int cmd_events (struct ctl *ctl, const struct args *args);
int cmd_node_ls (struct ctl *ctl, const struct args *args);
int cmd_node_show (struct ctl *ctl, const struct args *args);
int cmd_node_token (struct ctl *ctl, const struct args *args);
int cmd_node_tokens (struct ctl *ctl, const struct args *args);
int cmd_node_maintenance (struct ctl *ctl, const struct args *args);
int cmd_node_drain (struct ctl *ctl, const struct args *args);
int cmd_node_remove (struct ctl *ctl, const struct args *args);
int cmd_node_revoke (struct ctl *ctl, const struct args *args);
int cmd_ok_to_stop (struct ctl *ctl, const struct args *args);
int cmd_disk_format (struct ctl *ctl, const struct args *args);
int cmd_disk_probe (struct ctl *ctl, const struct args *args);
int cmd_disk_ls (struct ctl *ctl, const struct args *args);
int cmd_disk_forget (struct ctl *ctl, const struct args *args);
int cmd_disk_move (struct ctl *ctl, const struct args *args);
int cmd_array_create (struct ctl *ctl, const struct args *args);
int cmd_array_layouts (struct ctl *ctl, const struct args *args);
int cmd_array_ls (struct ctl *ctl, const struct args *args);
int cmd_array_show (struct ctl *ctl, const struct args *args);
int cmd_array_losing (struct ctl *ctl, const struct args *args);
int cmd_array_rm (struct ctl *ctl, const struct args *args);
int cmd_array_replace (struct ctl *ctl, const struct args *args);
int cmd_array_spare (struct ctl *ctl, const struct args *args);
int cmd_array_bad_ranges (struct ctl *ctl, const struct args *args);
int cmd_array_accept_loss (struct ctl *ctl, const struct args *args);
int cmd_array_set (struct ctl *ctl, const struct args *args);
int cmd_array_import (struct ctl *ctl, const struct args *args);
int cmd_rebuild_ls (struct ctl *ctl, const struct args *args);
int cmd_rebuild_pause (struct ctl *ctl, const struct args *args);
int cmd_rebuild_resume (struct ctl *ctl, const struct args *args);
int cmd_rebuild_cancel (struct ctl *ctl, const struct args *args);
int cmd_rebuild_join (struct ctl *ctl, const struct args *args);
int cmd_rebuild_rate (struct ctl *ctl, const struct args *args);
int cmd_rebuild_wait (struct ctl *ctl, const struct args *args);
int cmd_session_ls (struct ctl *ctl, const struct args *args);
int cmd_session_evict (struct ctl *ctl, const struct args *args);
int cmd_job_ls (struct ctl *ctl, const struct args *args);
int cmd_job_show (struct ctl *ctl, const struct args *args);
int cmd_wait_array (struct ctl *ctl, const struct args *args);
int cmd_wait_node (struct ctl *ctl, const struct args *args);
int cmd_wait_job (struct ctl *ctl, const struct args *args);
int cmd_history (struct ctl *ctl, const struct args *args);
int cmd_setup (struct ctl *ctl, const struct args *args);
int cmd_login (struct ctl *ctl, const struct args *args);
int cmd_logout (struct ctl *ctl, const struct args *args);
int cmd_whoami (struct ctl *ctl, const struct args *args);
int cmd_user_ls (struct ctl *ctl, const struct args *args);
int cmd_user_add (struct ctl *ctl, const struct args *args);
int cmd_user_set (struct ctl *ctl, const struct args *args);
int cmd_user_password (struct ctl *ctl, const struct args *args);
int cmd_user_rm (struct ctl *ctl, const struct args *args);
int cmd_token_ls (struct ctl *ctl, const struct args *args);
int cmd_token_add (struct ctl *ctl, const struct args *args);
int cmd_token_rm (struct ctl *ctl, const struct args *args);
int cmd_audit (struct ctl *ctl, const struct args *args);
int cmd_report (struct ctl *ctl, const struct args *args);
int cmd_map (struct ctl *ctl, const struct args *args);
int cmd_attach (struct ctl *ctl, const struct args *args);
int cmd_detach (struct ctl *ctl, const struct args *args);
int cmd_complete (struct ctl *ctl, const struct args *args);

#endif /* WEFT_COMMANDS_H */
