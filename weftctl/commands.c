/* commands.c: what there is to be done: the one list that the command line, the
 * help and the shell's completion are made of.
 *
 * What an argument is called says what it is: ARRAY, NODE, DISK, ... are names
 * that the shell can complete (complete.c).
 */

#include <config.h>

#include "ctl.h"

static const struct option disk_format_options[] = {
  { "force", NULL, "format even where something is found on the disk" },
  { NULL, NULL, NULL }
};

static const struct option array_create_options[] = {
  { "layout", "LAYOUT",
    "raid-x (the default), raid-10, chained, rotated, raid-1, raid-0" },
  { "disk", "DISK",
    "UUID (or its beginning), NODE:PATH, or PATH; in order of position" },
  { "unit", "SIZE", "stripe unit, 4K to 4M, a power of two (256K)" },
  { "groups", "K", "independent stripe groups, each of disks / K disks (1)" },
  { "dup", "PROTOCOL",
    "when a write is acknowledged: async-client or sync-client" },
  { NULL, NULL, NULL }
};

static const struct option array_set_options[] = {
  { "spare-after", "SECONDS",
    "a spare replaces a member that has been out so long; 0: never (600)" },
  { NULL, NULL, NULL }
};

static const struct option array_import_options[] = {
  { "without", "MEMBER", "give this member up, and all that it alone has" },
  { NULL, NULL, NULL }
};

static const struct option rebuild_rate_options[] = {
  { "floor", "SIZE", "bytes a second that it may always take; 0: the default" },
  { "ceiling", "SIZE", "bytes a second at most; 0: no limit" },
  { NULL, NULL, NULL }
};

static const struct option attach_options[] = {
  { "fuse", NULL, "a loop device over nbdfuse, even if the kernel has nbd" },
  { "print-uri", NULL, "attach nothing; print the NBD URI for other clients" },
  { "connections", "N", "NBD connections of nbdfuse, 1 to 16 (4)" },
  { "read-only", NULL, "attach for reading only" },
  { "node", "NAME", "name of this host as weftd knows it (env WEFT_NODE)" },
  { "takeover", NULL,
    "take it from the host that writes; what that has not flushed is lost" },
  { NULL, NULL, NULL }
};

static const struct option status_options[] = {
  { "check", NULL,
    "one line for a monitoring system, and its exit statuses 0 to 3" },
  { NULL, NULL, NULL }
};

static const struct option events_options[] = {
  { "follow", NULL, "go on with what happens from now on" },
  { "limit", "N", "so many of the newest (50)" },
  { "severity", "SEVERITY", "only info, warning or error" },
  { "subject", "SUBJECT", "only those of one thing, such as array:NAME" },
  { "text", "TEXT", "only those with this text in them" },
  { NULL, NULL, NULL }
};

static const struct option audit_options[] = {
  { "limit", "N", "so many of the newest (50)" }, { NULL, NULL, NULL }
};

static const struct option history_options[] = {
  { "last", "TIME", "so far back: 900, 15m, 6h, 30d (15m)" },
  { "points", "N", "in so many lines at most, 1 to 600 (30)" },
  { NULL, NULL, NULL }
};

static const struct option array_layouts_options[] = {
  { "unit", "SIZE", "stripe unit, 4K to 4M, a power of two (256K)" },
  { "groups", "K", "independent stripe groups, each of disks / K disks (1)" },
  { NULL, NULL, NULL }
};

static const struct option node_maintenance_options[] = {
  { "force", NULL, "even where data can't be reached meanwhile" },
  { NULL, NULL, NULL }
};

static const struct option node_token_options[] = {
  { "ttl", "TIME", "how long it can be used: 900, 15m, at most 24h (15m)" },
  { "cancel", "ID", "make none; this one is of use no more" },
  { NULL, NULL, NULL }
};

static const struct option node_drain_options[] = {
  { "stop", NULL, "stop moving members away; those that moved stay there" },
  { "wait", NULL, "show the progress, and end when the node is empty" },
  { NULL, NULL, NULL }
};

static const struct option setup_options[] = {
  { "url-file", "FILE",
    "the file in which weftd has left its one-time URL (STATE/setup-url)" },
  { "password-file", "FILE", "the password is its first line" },
  { NULL, NULL, NULL }
};

static const struct option login_options[] = {
  { "user", "NAME", "the user; asked for without it" },
  { "password-file", "FILE", "the password is its first line" },
  { "expires", "TIME", "for how long: 3600, 12h, 30d (30d)" },
  { NULL, NULL, NULL }
};

static const struct option user_options[] = {
  { "role", "ROLE", "viewer: sees all; admin: may do all" },
  { "password-file", "FILE", "the password is its first line" },
  { NULL, NULL, NULL }
};

static const struct option user_password_options[] = {
  { "current-file", "FILE", "the password as it is: its first line" },
  { "password-file", "FILE", "the new password: its first line" },
  { NULL, NULL, NULL }
};

static const struct option user_set_options[] = {
  { "role", "ROLE", "viewer: sees all; admin: may do all" },
  { "password", NULL, "ask for a new password" },
  { "password-file", "FILE", "a new password: its first line" },
  { NULL, NULL, NULL }
};

static const struct option token_add_options[] = {
  { "role", "ROLE", "viewer (the default): sees all; admin: may do all" },
  { "expires", "TIME", "for how long: 3600, 12h, 30d (without an end)" },
  { NULL, NULL, NULL }
};

static const struct option report_options[] = {
  { "output", "FILE", "write it there (weft-report-HOST-TIME.tar.gz)" },
  { NULL, NULL, NULL }
};

const struct command commands[] = {
  { "status", NULL, "[--check]", 0, 0, "the whole on one page", status_options,
    .run = cmd_status },
  { "events", NULL, "[options]", 0, 0, "what has happened, oldest first",
    events_options, .run = cmd_events },
  { "history", NULL, "[SUBJECT] [options]", 0, 1,
    "rates and latencies of cluster, array:NAME or disk:UUID over time",
    history_options, .run = cmd_history },
  { "node", "ls", "", 0, 0, "the hosts that weftd has heard of", NULL,
    .run = cmd_node_ls },
  { "node", "show", "NODE", 1, 1, "a host, its disks and sessions", NULL,
    .run = cmd_node_show },
  { "node", "token", "[NODE] [--ttl TIME] [--cancel ID]", 0, 1,
    "make a token by which one new host can enroll (weft-enroll)",
    node_token_options, .run = cmd_node_token },
  { "node", "tokens", "", 0, 0, "those tokens that could still be used", NULL,
    .run = cmd_node_tokens },
  { "node", "maintenance", "on|off NODE [--force]", 2, 2,
    "a node is to be silent for a while: nothing is rebuilt elsewhere",
    node_maintenance_options, .run = cmd_node_maintenance, .dry_run = true },
  { "node", "drain", "NODE [--stop] [--wait]", 1, 1,
    "move its members to other nodes, one after another", node_drain_options,
    .run = cmd_node_drain, .dry_run = true },
  { "node", "remove", "NODE", 1, 1,
    "forget an empty node, and revoke its certificate", NULL,
    .run = cmd_node_remove, .dry_run = true },
  { "node", "revoke", "NODE", 1, 1,
    "shut a node out: its certificate is of use no more", NULL,
    .run = cmd_node_revoke, .dry_run = true },
  { "ok-to-stop", NULL, "NODE", 1, 1,
    "may this node be stopped now, and what would it cost", NULL,
    .run = cmd_ok_to_stop },
  { "disk", "format", "PATH... [--force]", 1, 1024,
    "make disks or files into members for an array (local; needs no weftd)",
    disk_format_options, .run = cmd_disk_format },
  { "disk", "probe", "PATH...", 1, 1024,
    "what is on disks of this host; changes nothing (needs no weftd)", NULL,
    .run = cmd_disk_probe },
  { "disk", "ls", "", 0, 0, "the disks that weftd has heard of", NULL,
    .run = cmd_disk_ls },
  { "disk", "forget", "DISK", 1, 1,
    "drop a disk that is silent and in no array from weftd's list", NULL,
    .run = cmd_disk_forget, .dry_run = true },
  { "disk", "move", "DISK NODE", 2, 2,
    "a silent disk of an array was carried to another node: that may serve it",
    NULL, .run = cmd_disk_move },
  { "array", "create", "NAME --disk DISK... [options]", 1, 1024,
    "make an array: shows the plan, asks, and waits until it is ready",
    array_create_options, .run = cmd_array_create, .dry_run = true },
  { "array", "layouts", "DISK... [options]", 1, 1024,
    "which layouts these disks could have, side by side", array_layouts_options,
    .run = cmd_array_layouts },
  { "array", "ls", "", 0, 0, "the arrays", NULL, .run = cmd_array_ls },
  { "array", "show", "ARRAY", 1, 1, "an array, its members and sessions", NULL,
    .run = cmd_array_show },
  { "array", "bad-ranges", "ARRAY", 1, 1,
    "what of it can't be read, for no good copy was found: write it anew", NULL,
    .run = cmd_array_bad_ranges },
  { "array", "accept-loss", "ARRAY [OFFSET [LENGTH]]", 1, 3,
    "zeroes in place of these, or of all bad ranges; wants the name typed",
    NULL, .run = cmd_array_accept_loss, .dry_run = true },
  { "array", "losing", "ARRAY MEMBER|NODE", 2, 2,
    "what the loss of a member or of a node would cost the array now", NULL,
    .run = cmd_array_losing },
  { "array", "rm", "ARRAY", 1, 1,
    "remove an array and its data; wants the name typed, or --yes", NULL,
    .run = cmd_array_rm, .dry_run = true },
  { "array", "replace", "ARRAY MEMBER DISK", 3, 3,
    "give the place of a member that is out to another disk, and rebuild it",
    NULL, .run = cmd_array_replace, .dry_run = true },
  { "array", "spare", "add|rm ARRAY DISK", 3, 3,
    "keep a disk as a spare for the array, or no longer", NULL,
    .run = cmd_array_spare },
  { "array", "set", "ARRAY --spare-after SECONDS", 1, 1,
    "when a spare takes the place of a member that is out", array_set_options,
    .run = cmd_array_set },
  { "array", "import", "[NAME ARRAY-UUID [--without MEMBER]...]", 0, 2,
    "take an array over from its members alone; with nothing, show what is "
    "there",
    array_import_options, .run = cmd_array_import },
  { "rebuild", "ls", "", 0, 0, "members that are being rebuilt", NULL,
    .run = cmd_rebuild_ls },
  { "rebuild", "wait", "ARRAY MEMBER", 2, 2,
    "show the progress, and end when the member is in-sync", NULL,
    .run = cmd_rebuild_wait },
  { "rebuild", "pause", "ARRAY MEMBER", 2, 2, "stop copying for now", NULL,
    .run = cmd_rebuild_pause },
  { "rebuild", "resume", "ARRAY MEMBER", 2, 2, "go on copying", NULL,
    .run = cmd_rebuild_resume },
  { "rebuild", "cancel", "ARRAY MEMBER", 2, 2,
    "end it: the member is out, and stays so until rebuild join", NULL,
    .run = cmd_rebuild_cancel, .dry_run = true },
  { "rebuild", "join", "ARRAY MEMBER", 2, 2,
    "take back a member that was held out", NULL, .run = cmd_rebuild_join },
  { "rebuild", "rate", "ARRAY MEMBER [--floor SIZE] [--ceiling SIZE]", 2, 2,
    "how fast it may be, in bytes a second", rebuild_rate_options,
    .run = cmd_rebuild_rate },
  { "session", "ls", "", 0, 0, "the hosts that have an array attached", NULL,
    .run = cmd_session_ls },
  { "session", "evict", "SESSION", 1, 1,
    "cut a host off from its array; what it has not flushed is lost", NULL,
    .run = cmd_session_evict, .dry_run = true },
  { "job", "ls", "", 0, 0, "what weftd has under way", NULL,
    .run = cmd_job_ls },
  { "job", "show", "JOB", 1, 1, "one job, and how far it is", NULL,
    .run = cmd_job_show },
  { "wait", "array", "ARRAY STATE", 2, 2,
    "until it is ready, or in-sync (all its members are), or gone", NULL,
    .run = cmd_wait_array },
  { "wait", "rebuild", "ARRAY MEMBER", 2, 2, "until the member is in-sync",
    NULL, .run = cmd_rebuild_wait },
  { "wait", "node", "NODE STATE", 2, 2, "until it is alive, silent, or drained",
    NULL, .run = cmd_wait_node },
  { "wait", "job", "JOB", 1, 1, "until it is done", NULL, .run = cmd_wait_job },
  { "map", NULL, "ARRAY [OFFSET [LENGTH]]", 1, 3,
    "which members hold a range; without an offset, a picture of the layout",
    NULL, .run = cmd_map },
  { "attach", NULL, "ARRAY [options]", 1, 1,
    "make the array a block device of this host and print its path",
    attach_options, .run = cmd_attach },
  { "detach", NULL, "ARRAY", 1, 1,
    "flush and undo what attach did on this host", NULL, .run = cmd_detach },
  { "setup", NULL, "NAME --url-file FILE [--password-file FILE]", 1, 1,
    "make the first user of a new weftd, an admin", setup_options,
    .run = cmd_setup },
  { "login", NULL, "[options]", 0, 0,
    "get a token of weftd's, and keep it for the commands to come",
    login_options, .run = cmd_login },
  { "logout", NULL, "", 0, 0, "give that token back", NULL, .run = cmd_logout },
  { "whoami", NULL, "", 0, 0, "as whom weftd takes these calls", NULL,
    .run = cmd_whoami },
  { "user", "ls", "", 0, 0, "who may log in", NULL, .run = cmd_user_ls },
  { "user", "add", "NAME --role ROLE [--password-file FILE]", 1, 1,
    "somebody more may log in", user_options, .run = cmd_user_add },
  { "user", "set", "USER [options]", 1, 1, "another role or password",
    user_set_options, .run = cmd_user_set },
  { "user", "password", "USER [options]", 1, 1, "change one's own password",
    user_password_options, .run = cmd_user_password },
  { "user", "rm", "USER", 1, 1, "somebody may log in no more", NULL,
    .run = cmd_user_rm, .dry_run = true },
  { "token", "ls", "", 0, 0, "the API tokens", NULL, .run = cmd_token_ls },
  { "token", "add", "NAME [--role ROLE] [--expires TIME]", 1, 1,
    "make an API token and print it, this once", token_add_options,
    .run = cmd_token_add },
  { "token", "rm", "TOKEN", 1, 1, "an API token is of use no more", NULL,
    .run = cmd_token_rm, .dry_run = true },
  { "audit", NULL, "[--limit N]", 0, 0, "who has changed what, oldest first",
    audit_options, .run = cmd_audit },
  { "report", NULL, "[--output FILE]", 0, 0,
    "gather what others need to help, without secrets", report_options,
    .run = cmd_report },
  { "complete", NULL, "WORD...", 0, 1024, NULL, NULL, .run = cmd_complete },
  { .noun = NULL }
};
