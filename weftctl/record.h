/* record.h: the record of an attach on this host, by which `detach` undoes it.
 *
 * An attached array has a directory of its own in the run directory (env
 * WEFT_RUN_DIR, default /run/weftctl), which is of the user who attaches, with mode
 * 0700, where no other user can replace it (common/folder.h):
 *
 *   ARRAY/attach.json  the record: struct record as JSON; of a volume in POOL+NAME
 *   ARRAY/nbd.sock     of the nbdkit that attach started, with nbdkit.pid and
 *                      nbdkit.log
 *   ARRAY/mnt/ARRAY    the array as a file, by nbdfuse, with nbdfuse.pid and
 *                      nbdfuse.log
 *
 * The record is written before each step that it tells of, so that an attach
 * that was interrupted can be undone as well.  The directory is locked (flock)
 * as long as a weftctl works with it.
 */

#ifndef WEFT_RECORD_H
#define WEFT_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "ctl.h"
#include "ctl-process.h"

enum device_kind {
  DEVICE_NONE,
  DEVICE_LOOP, /* a loop device over nbdfuse's file */
  DEVICE_NBD,  /* the kernel's own NBD client */
};

/* OFFSET+LENGTH of an array, as --part has it; length 0: up to its end. */
struct part {
  bool given;
  uint64_t offset, length;
};

struct record {
  const char *name;                    /* of the array; of a volume POOL/NAME */
  char folder[2 * NAME_BYTES_MAX + 2]; /* the name of its directory */
  char dir[96];     /* its directory; room in a socket's address is 108 */
  char socket[112]; /* where systemd listens for clients of the array */
  int run;          /* a descriptor of the run directory */
  int lock;         /* a descriptor of the directory */
  bool found;       /* there was a record */

  bool readonly;
  bool service;          /* by way of the array's service */
  bool leases;           /* beside others, by leases */
  struct part part;      /* the part that is written, beside others */
  bool unseen;           /* nobody has looked yet what is on the device */
  char uri[512];         /* "": none found yet */
  struct process server; /* the nbdkit that attach started */
  struct process fuse;   /* nbdfuse */
  bool mounted;          /* nbdfuse's mount point may be mounted */
  enum device_kind kind;
  char device[64];  /* /dev/loop3, /dev/nbd0 */
  uint64_t nbd_pid; /* by which the kernel tells our nbd device */
};

/* Between the names of a pool and its volume in the name of a directory. */
#define RECORD_VOLUME '+'

/* Lock the directory of an array or volume and read its record.  With create, the
 * directory is made; without, one that is missing is as good as an empty one.
 */
int record_open (struct ctl *ctl, struct record *r, const char *name,
                 bool create);
/* Write it, durably enough for a crash of weftctl. */
int record_save (const struct record *r);
/* Has a volume of this pool a directory, because it is attached? */
bool record_volumes (const struct record *r);
/* All is undone: remove the directory and what is left in it. */
void record_remove (struct record *r);
void record_close (struct record *r);

/* As `attach --json` shows it; to be decrefed. */
json_t *record_json (const struct record *r);

/* A path in the record's directory. */
#define RECORD_PATH_BYTES 288
const char *record_path (const struct record *r, const char *file,
                         char path[RECORD_PATH_BYTES]);

/* cmd-detach.c: undo all steps in the record, in reverse order, and remove it.
 * EXIT_OK, or a status with the reason printed; steps that could not be undone
 * stay recorded.
 */
int detach_undo (struct ctl *ctl, struct record *r);

#endif /* WEFT_RECORD_H */
