/* disk.h: a member's header on a real disk or file.
 *
 * Used by the member role and by `weftctl disk`.  Every function that fails
 * returns -1 (or NULL) and puts one sentence into why, which names the disk,
 * the reason and the way out; nothing was written then, unless it says so.
 */

#ifndef WEFT_DISK_H
#define WEFT_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/bad.h"
#include "format/format.h"

/* The smallest data area that disk_format makes, and what its size is a
 * multiple of.
 */
#define DISK_DATA_BYTES_MIN MiB (1)
#define DISK_DATA_STEP_BYTES 4096

/* ---- What is on a disk? ---- */

enum disk_content_kind {
  DISK_BLANK,   /* nothing that anybody knows */
  DISK_WEFT,    /* a readable Weft header: `sb` */
  DISK_DAMAGED, /* a Weft header of which no slot is readable */
  DISK_FOREIGN, /* a file system, partition table, LVM, md, swap, ... */
};

struct disk_content {
  enum disk_content_kind kind;
  char text[256];       /* in words: "an ext4 file system labelled \"home\"" */
  struct superblock sb; /* DISK_WEFT */
  bool block_device;
  uint64_t size; /* bytes of the whole disk or file */
};

/* Reads only, and takes no lock: a disk that is being served can be looked
 * at too.
 */
int disk_probe (const char *path, struct disk_content *content, char *why,
                size_t why_size);

/* Has the block device or file, or a partition of it, what is destroyed if two hosts use
 * it at the same time: a file system that is not a cluster's, swap space, LVM, a
 * software RAID?  1, with it in words; 0: not that libblkid knows; -1.
 */
int disk_of_one_host (const char *path, char text[256], char *why,
                      size_t why_size);

/* ---- Formatting ---- */

struct disk_formatted {
  struct superblock sb;  /* its new UUID, its data area */
  uint64_t size;         /* bytes of the whole disk */
  uint64_t unused_bytes; /* at its end, because its size is no multiple */
  bool dirty; /* its data area may hold other than zeroes, so a member
                            made of it starts with the bits of all extents set */
  struct disk_content replaced; /* the former content */
};

/* Make a Weft disk of a blank one; with force, of any that nobody has open.
 * Old signatures are wiped, so that libblkid sees nothing afterwards.  Where
 * the disk can do it without writing it all, its data area is zeroed.
 */
int disk_format (const char *path, bool force, struct disk_formatted *result,
                 char *why, size_t why_size);

/* ---- Serving ---- */

struct disk {
  char *path;
  bool block_device;
  uint64_t size;        /* bytes of the whole disk or file */
  int data_fd;          /* holds the exclusive claim; nothing is synced by it */
  struct superblock sb; /* as of its opening */
  struct disk_syncs *syncs;
};

/* A descriptor that nobody else syncs by meanwhile (disk.c). */
int disk_sync_take (const struct disk *d);
void disk_sync_give (const struct disk *d, int fd);

/* Open a Weft disk exclusively and read its header; if one of its two
 * superblock slots is bad or older, it is written again.  Refuses a disk that
 * is missing, not formatted, foreign, damaged, shorter than when it was
 * formatted, or open elsewhere.
 */
struct disk *disk_open (const char *path, char *why, size_t why_size);
void disk_close (struct disk *d);

/* Read the intent map of an open disk into *map, which this initialises for
 * d->sb.data_bytes.  *bad_blocks gets the number of blocks that were not
 * readable as such and count as all dirty.
 */
int disk_read_intents (struct disk *d, struct intents *map,
                       unsigned *bad_blocks, char *why, size_t why_size);

/* Name the memory that has the writes to the disk that are not synced (the page
 * cache). A process that gets the same name as another one still has all writes
 * of the other.  The name changes with each boot of the host, with the file,
 * and each time that the kernel finds the disk again, because a disk that was
 * taken out has lost the writes on their way to it.  "": not known.
 */
#define DISK_CACHE_BYTES 128
void disk_cache (const struct disk *d, char name[DISK_CACHE_BYTES]);

/* Read the list of bad ranges of an open disk; a disk without room for one has an
 * empty list.  *mend: as bad_decode.
 */
int disk_read_bad (struct disk *d, struct bad_list *list, bool *mend, char *why,
                   size_t why_size);

/* Write into the header, durably.  Returns 0 or an errno.  *syncing: that may be the
 * error of making it stable; else the write itself was refused.
 */
int disk_write_header (struct disk *d, const void *buf, size_t bytes,
                       uint64_t offset, bool *syncing);

/* How much room there is for a member in a file. */
struct disk_room {
  /* of its file system, for users without access to the reserve */
  uint64_t free, size;
  uint64_t
    wanted; /* of the member, that the file has no room of its own for yet */
};
/* False: it is no file, or the room is not known. */
bool disk_room (const struct disk *d, struct disk_room *room);
/* Is there room for this part of the disk?  Missing blocks of the file are
 * allocated, and read as before.
 */
bool disk_reserve (const struct disk *d, uint64_t offset, uint64_t bytes);

#endif /* WEFT_DISK_H */
