/* commands.h: the functions of commands.c's list. */

#ifndef WEFT_COMMANDS_H
#define WEFT_COMMANDS_H

extern command_run cmd_status, cmd_events, cmd_history, cmd_ok_to_stop;
extern command_run cmd_node_address, cmd_node_ls, cmd_node_show, cmd_node_token,
  cmd_node_tokens;
extern command_run cmd_node_maintenance, cmd_node_drain, cmd_node_fence,
  cmd_node_remove;
extern command_run cmd_node_revoke;
extern command_run cmd_disk_format, cmd_disk_probe, cmd_disk_ls;
extern command_run cmd_disk_forget, cmd_disk_move, cmd_disk_rekey;
extern command_run cmd_array_create, cmd_array_layouts, cmd_array_ls;
extern command_run cmd_array_show, cmd_array_losing, cmd_array_rm;
extern command_run cmd_array_replace, cmd_array_spare, cmd_array_bad_ranges;
extern command_run cmd_array_accept_loss, cmd_array_set, cmd_array_import;
extern command_run cmd_array_service, cmd_array_leases, cmd_array_allow;
extern command_run cmd_array_deny;
extern command_run cmd_backup, cmd_revocations_confirm;
extern command_run cmd_ca_show, cmd_ca_rotate, cmd_ca_retire;
extern command_run cmd_rebuild_ls, cmd_rebuild_pause, cmd_rebuild_resume;
extern command_run cmd_rebuild_cancel, cmd_rebuild_join, cmd_rebuild_rate;
extern command_run cmd_rebuild_wait;
extern command_run cmd_volume_create, cmd_volume_ls, cmd_volume_show;
extern command_run cmd_volume_resize, cmd_volume_rm;
extern command_run cmd_session_ls, cmd_session_evict;
extern command_run cmd_job_ls, cmd_job_show;
extern command_run cmd_wait_array, cmd_wait_node, cmd_wait_job;
extern command_run cmd_setup, cmd_login, cmd_logout, cmd_whoami;
extern command_run cmd_user_ls, cmd_user_add, cmd_user_set, cmd_user_password;
extern command_run cmd_user_rm, cmd_user_totp;
extern command_run cmd_token_ls, cmd_token_add, cmd_token_rm, cmd_audit;
extern command_run cmd_report, cmd_map, cmd_attach, cmd_detach, cmd_complete;

#endif /* WEFT_COMMANDS_H */
