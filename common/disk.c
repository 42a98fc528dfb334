/* disk.c: a member's header on a real disk or file.
 *
 * A disk is claimed through its data descriptor: O_EXCL on a block device,
 * which the kernel's own users (mounts, md, LVM) respect; on a file an OFD
 * lock, which other members respect, and which, unlike a POSIX lock, stays when
 * nbdkit forks into the background.
 *
 * The kernel reports a write error once to each descriptor.  If two threads
 * synced by the same descriptor, one of them would miss the error.  So each
 * syncing thread has a descriptor of its own (`syncs`); all are opened with the
 * disk, and get all errors since.  The header is written with RWF_DSYNC: that
 * waits for no data.
 *
 * A disk with two good slots is a member, whatever else may be on it: users'
 * data may look like anything.  When a slot is bad, a header write may have
 * been cut short, or somebody may have made a file system over the member; a
 * signature within the header distinguishes the two.
 */

#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <blkid/blkid.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include "disk.h"
#include "file.h"
#include "refuse.h"

/* ---- Opening ---- */

/* Opens path and finds out what it is.  Returns the descriptor or -1. */
static int
open_any (const char *path, int flags, bool *block_device, uint64_t *size,
          char *why, size_t why_size)
{
  struct stat st;
  int fd;

  /* O_NONBLOCK: do not hang on a FIFO; it means nothing for disks. */
  fd = open (path, flags | O_CLOEXEC | O_NONBLOCK);
  if (fd == -1 && errno == ENOENT)
    return refuse (why, why_size,
                   "%s: no such file or device; check the "
                   "path",
                   path);
  if (fd == -1 && errno == EBUSY)
    return refuse (why, why_size,
                   "%s is in use: it is mounted, part of "
                   "another device, or served by another process; end that "
                   "first",
                   path);
  if (fd == -1 && errno == EISDIR)
    return refuse (why, why_size,
                   "%s is a directory, not a disk; give a "
                   "block device or a file",
                   path);
  if (fd == -1 && errno == EPERM)
    return refuse (why, why_size,
                   "%s is not the disk that this process may touch; after a "
                   "change in /etc/weft/disks say systemctl daemon-reload, "
                   "and start its unit again",
                   path);
  if (fd == -1)
    return refuse (why, why_size,
                   "%s cannot be opened: %s; check its "
                   "permissions and cabling",
                   path, strerror (errno));
  if (fstat (fd, &st) == -1 ||
      (!S_ISBLK (st.st_mode) && !S_ISREG (st.st_mode))) {
    close (fd);
    return refuse (why, why_size,
                   "%s is neither a block device nor a "
                   "regular file; give one of these",
                   path);
  }
  *block_device = S_ISBLK (st.st_mode);
  *size = st.st_size;
  if (*block_device && ioctl (fd, BLKGETSIZE64, size) == -1) {
    close (fd);
    return refuse (why, why_size,
                   "%s does not tell its size: %s; is it a "
                   "disk?",
                   path, strerror (errno));
  }
  return fd;
}

/* Opens for writing, for ourselves alone. */
static int
open_claimed (const char *path, bool *block_device, uint64_t *size, char *why,
              size_t why_size)
{
  struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
  struct stat st;
  int fd, flags = O_RDWR;

  /* On anything but a block device O_EXCL alone has no meaning. */
  if (stat (path, &st) == 0 && S_ISBLK (st.st_mode))
    flags |= O_EXCL;
  fd = open_any (path, flags, block_device, size, why, why_size);
  if (fd == -1)
    return -1;
  if (!*block_device && fcntl (fd, F_OFD_SETLK, &lock) == -1) {
    int err = errno;

    close (fd);
    if (err == EAGAIN || err == EACCES)
      return refuse (why, why_size,
                     "%s is in use: another process serves "
                     "it; end that first",
                     path);
    return refuse (why, why_size,
                   "%s cannot be locked: %s; put it on a file "
                   "system that has locks",
                   path, strerror (err));
  }
  return fd;
}

/* ---- What is there? ---- */

/* Of so many bytes; 0: all that follow. */
static blkid_probe
new_probe_of (int fd, uint64_t offset, uint64_t bytes)
{
  blkid_probe pr = blkid_new_probe ();

  if (pr == NULL)
    return NULL;
  if (blkid_probe_set_device (pr, fd, (blkid_loff_t) offset,
                              (blkid_loff_t) bytes) != 0) {
    blkid_free_probe (pr);
    return NULL;
  }
  blkid_probe_enable_superblocks (pr, 1);
  blkid_probe_set_superblocks_flags (
    pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL | BLKID_SUBLKS_USAGE |
          BLKID_SUBLKS_MAGIC | BLKID_SUBLKS_BADCSUM);
  blkid_probe_enable_partitions (pr, 1);
  blkid_probe_set_partitions_flags (pr,
                                    BLKID_PARTS_FORCE_GPT | BLKID_PARTS_MAGIC);
  return pr;
}

static blkid_probe
new_probe (int fd)
{
  return new_probe_of (fd, 0, 0);
}

static const char *
value (blkid_probe pr, const char *name)
{
  const char *v = NULL;

  return blkid_probe_lookup_value (pr, name, &v, NULL) == 0 ? v : NULL;
}

static void
describe (blkid_probe pr, char *text, size_t size)
{
  const char *type = value (pr, "TYPE"), *label = value (pr, "LABEL");
  const char *usage = value (pr, "USAGE"), *table = value (pr, "PTTYPE");
  int n;

  if (type == NULL && table)
    n = snprintf (text, size, "a partition table (%s)", table);
  else if (type == NULL)
    n = snprintf (text, size, "something that libblkid has no name for");
  else if (strcmp (type, "LVM2_member") == 0)
    n = snprintf (text, size, "an LVM physical volume");
  else if (strcmp (type, "linux_raid_member") == 0)
    n = snprintf (text, size, "a member of a Linux software RAID");
  else if (strcmp (type, "swap") == 0)
    n = snprintf (text, size, "swap space");
  else if (usage && strcmp (usage, "filesystem") == 0)
    n = snprintf (text, size, "%s %s file system",
                  strchr ("aeioux", type[0]) ? "an" : "a", type);
  else
    n = snprintf (text, size, "a volume of type %s", type);
  if (type && label && *label && n > 0 && (size_t) n < size)
    snprintf (text + n, size - n, " labelled \"%.64s\"", label);
}

static bool
within_header (blkid_probe pr)
{
  const char *at = value (pr, "SBMAGIC_OFFSET");

  if (at == NULL)
    at = value (pr, "PTMAGIC_OFFSET");
  return at != NULL && strtoull (at, NULL, 10) < HEADER_BYTES;
}

/* The first signature, or the first within the header.  Returns 1 with *text,
 * 0 when there is none, -1 when that can't be found out.
 */
static int
find_signature (int fd, bool header_only, char *text, size_t size)
{
  blkid_probe pr = new_probe (fd);
  int r;

  if (pr == NULL)
    return -1;
  while ((r = blkid_do_probe (pr)) == 0)
    if (!header_only || within_header (pr)) {
      describe (pr, text, size);
      break;
    }
  blkid_free_probe (pr);
  return r == 0 ? 1 : r == 1 ? 0 : -1;
}

/* Of what was found: is it destroyed if two hosts use it?  It is, unless it is known to
 * be made for several hosts, or never to be written, or to say nothing of what it holds.
 */
static bool
is_of_one_host (blkid_probe pr)
{
  static const char *const shared[] = {
    "ocfs2",    "gfs2",      "gfs",   "VMFS",       "VMFS_volume_member",
    "lustre",   "oracleasm", "erofs", "cramfs",     "iso9660",
    "squashfs", "squashfs3", "romfs", "crypto_LUKS"
  };
  const char *type = value (pr, "TYPE");

  for (size_t i = 0; type && i < sizeof shared / sizeof shared[0]; i++)
    if (strcmp (type, shared[i]) == 0)
      return false;
  return type != NULL;
}

/* The same of one place. */
static int
look_for_one_host (int fd, uint64_t offset, uint64_t bytes, char text[256])
{
  blkid_probe pr = new_probe_of (fd, offset, bytes);
  int r;

  if (pr == NULL)
    return -1;
  while ((r = blkid_do_probe (pr)) == 0)
    if (is_of_one_host (pr)) {
      describe (pr, text, 256);
      break;
    }
  blkid_free_probe (pr);
  return r == 0 ? 1 : r == 1 ? 0 : -1;
}

static int
look_in_partitions (int fd, char text[256])
{
  blkid_probe pr = new_probe (fd);
  blkid_partlist list = pr ? blkid_probe_get_partitions (pr) : NULL;
  int n = list ? blkid_partlist_numof_partitions (list) : 0, r = pr ? 0 : -1;

  for (int i = 0; r == 0 && i < n; i++) {
    blkid_partition p = blkid_partlist_get_partition (list, i);

    /* The partitions in an extended one are in the list themselves. */
    if (!blkid_partition_is_extended (p))
      r = look_for_one_host (fd, (uint64_t) blkid_partition_get_start (p) * 512,
                             (uint64_t) blkid_partition_get_size (p) * 512,
                             text);
  }
  if (pr)
    blkid_free_probe (pr);
  return r;
}

int
disk_of_one_host (const char *path, char text[256], char *why, size_t why_size)
{
  int fd = open (path, O_RDONLY | O_CLOEXEC), r = -1;

  if (fd != -1) {
    /* This page cache lacks writes that another host has made since. */
    posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
    r = look_for_one_host (fd, 0, 0, text);
    if (r == 0)
      r = look_in_partitions (fd, text);
    close (fd);
  }
  if (r == -1)
    refuse (why, why_size, "%s: libblkid cannot tell what is on it", path);
  return r;
}

/* c->block_device and c->size are given.  *mend (may be NULL): as superblock_mend.
 */
static int
examine (int fd, const char *path, struct disk_content *c, bool *mend,
         char *why, size_t why_size)
{
  uint8_t slots[2 * SLOT_BYTES] = { 0 };
  char uuid[FORMAT_UUID_TEXT_BYTES];
  struct superblock other;
  const char *reason = NULL;
  int newest, r, err;
  bool whole;

  err = file_read (fd, slots, c->size < sizeof slots ? c->size : sizeof slots,
                   0);
  if (err)
    return refuse (why, why_size,
                   "%s cannot be read: %s; the disk may be "
                   "broken",
                   path, strerror (err));
  newest = superblock_newest (slots, &c->sb, &reason);
  whole = newest >= 0 && superblock_decode (slots + (1 - newest) * SLOT_BYTES,
                                            &other, &reason) == 0;
  if (mend)
    *mend = newest >= 0 && superblock_mend (slots, &c->sb);
  if (!whole) {
    r = find_signature (fd, superblock_present (slots), c->text,
                        sizeof c->text);
    if (r == -1)
      return refuse (why, why_size,
                     "%s: libblkid cannot tell what is on it; "
                     "the disk may be broken",
                     path);
    if (r == 1) {
      c->kind = DISK_FOREIGN;
      return 0;
    }
  }
  if (newest >= 0 && format_uuid_zero (c->sb.array)) {
    c->kind = DISK_WEFT;
    format_uuid (c->sb.disk, uuid);
    snprintf (c->text, sizeof c->text,
              "a Weft disk (%s) that belongs to no array", uuid);
  }
  else if (newest >= 0) {
    c->kind = DISK_WEFT;
    format_uuid (c->sb.array, uuid);
    snprintf (c->text, sizeof c->text, "member %u of the Weft array %s",
              c->sb.position, uuid);
  }
  else if (superblock_present (slots)) {
    c->kind = DISK_DAMAGED;
    snprintf (c->text, sizeof c->text, "a damaged Weft header (%s)", reason);
  }
  else {
    c->kind = DISK_BLANK;
    snprintf (c->text, sizeof c->text, "nothing that is known");
  }
  return 0;
}

int
disk_probe (const char *path, struct disk_content *content, char *why,
            size_t why_size)
{
  struct disk_content c = { .kind = DISK_BLANK };
  int fd, r;

  fd = open_any (path, O_RDONLY, &c.block_device, &c.size, why, why_size);
  if (fd == -1)
    return -1;
  r = examine (fd, path, &c, NULL, why, why_size);
  close (fd);
  if (r == 0)
    *content = c;
  return r;
}

/* ---- Formatting ---- */

/* Returns 0 or -1. */
static int
wipe_signatures (int fd)
{
  blkid_probe pr = new_probe (fd);
  int r = 0;

  if (pr == NULL)
    return -1;
  /* Each turn takes the magic of one signature away; the bound is there for
   * a disk on which writes have no effect.
   */
  for (int i = 0; r == 0 && i < 256; i++) {
    r = blkid_do_probe (pr);
    if (r == 0 && blkid_do_wipe (pr, 0) != 0)
      r = -1;
  }
  blkid_free_probe (pr);
  return r == 1 ? 0 : -1;
}

/* Make the data area read as zeroes if that is quick: a disk that is known to
 * be all zeroes needs no first resync.  Returns whether it does so now.
 */
static bool
zero_data (int fd, bool block_device, uint64_t bytes)
{
  /* On a block device, to punch a hole fails where the kernel would have to write
   * the zeroes itself; on a file, to zero a range keeps the space reserved.
   */
  int mode = block_device ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE;
  uint64_t step = GiB (1);

  if (!block_device && lseek (fd, HEADER_BYTES, SEEK_DATA) == -1 &&
      errno == ENXIO)
    return true;
  for (uint64_t at = 0; at < bytes; at += step)
    if (fallocate (fd, mode | FALLOC_FL_KEEP_SIZE, HEADER_BYTES + at,
                   bytes - at < step ? bytes - at : step) == -1)
      return false;
  return true;
}

/* The header without its slots first, so that a disk whose formatting was cut
 * short is no Weft disk at all.
 */
static int
write_header (int fd, struct superblock *sb, bool dirty)
{
  uint8_t *header = calloc (1, HEADER_BYTES);
  struct intents map;
  int err;

  if (header == NULL || intents_init (&map, intents_extents (sb->data_bytes))) {
    free (header);
    return ENOMEM;
  }
  if (dirty)
    intents_set_all (&map);
  for (unsigned i = 0; i < intents_blocks (&map); i++)
    intents_encode (
      &map, i, header + INTENT_BLOCKS_OFFSET + (size_t) i * INTENT_BLOCK_BYTES);
  intents_free (&map);
  err = file_write (fd, header, HEADER_BYTES, 0, 0);
  if (err == 0 && fsync (fd) == -1)
    err = errno;
  for (int i = 0; err == 0 && i < 2; i++) {
    sb->sequence++;
    superblock_encode (sb, header);
    err = file_write (fd, header, SLOT_BYTES, sb->sequence % 2 * SLOT_BYTES,
                      RWF_DSYNC);
  }
  free (header);
  return err;
}

static int
format_claimed (int fd, const char *path, bool force, struct disk_formatted *f,
                char *why, size_t why_size)
{
  struct disk_content *c = &f->replaced;
  uint8_t *uuid = f->sb.disk;
  char left[256] = "a signature";
  int err;

  if (f->size < HEADER_BYTES + DISK_DATA_BYTES_MIN)
    return refuse (why, why_size,
                   "%s is too small: it has %" PRIu64
                   " bytes, and a member takes at least %" PRIu64 "; take a "
                   "larger disk",
                   path, f->size, HEADER_BYTES + DISK_DATA_BYTES_MIN);
  if (examine (fd, path, c, NULL, why, why_size) == -1)
    return -1;
  if (c->kind != DISK_BLANK && !force)
    return refuse (why, why_size,
                   "%s holds %s, which formatting would "
                   "destroy; take another disk, or force it",
                   path, c->text);

  f->sb.data_offset = HEADER_BYTES;
  f->sb.data_bytes = (f->size - HEADER_BYTES) / DISK_DATA_STEP_BYTES *
                     DISK_DATA_STEP_BYTES;
  if (f->sb.data_bytes > FORMAT_DATA_BYTES_MAX)
    f->sb.data_bytes = FORMAT_DATA_BYTES_MAX;
  superblock_upgrade (&f->sb);
  f->unused_bytes = f->size - HEADER_BYTES - f->sb.data_bytes;
  if (getrandom (uuid, 16, 0) != 16)
    return refuse (why, why_size,
                   "%s was not formatted: the kernel gives no "
                   "random bytes: %s",
                   path, strerror (errno));
  uuid[6] = (uuid[6] & 0x0f) | 0x40; /* version 4, RFC 9562 */
  uuid[8] = (uuid[8] & 0x3f) | 0x80;

  if (wipe_signatures (fd) == -1)
    return refuse (why, why_size,
                   "%s: the signature of %s cannot be wiped; "
                   "the disk may be read-only or broken",
                   path, c->text);
  f->dirty = !zero_data (fd, c->block_device, f->sb.data_bytes);
  err = write_header (fd, &f->sb, f->dirty);
  if (err)
    return refuse (why, why_size,
                   "%s: writing the header failed: %s; it is "
                   "no Weft disk now",
                   path, strerror (err));
  if (find_signature (fd, false, left, sizeof left) != 0)
    return refuse (why, why_size,
                   "%s: %s shows still after it was wiped; the "
                   "disk may be broken",
                   path, left);
  return 0;
}

int
disk_format (const char *path, bool force, struct disk_formatted *result,
             char *why, size_t why_size)
{
  struct disk_formatted f = { .size = 0 };
  int fd, r;

  fd = open_claimed (path, &f.replaced.block_device, &f.size, why, why_size);
  if (fd == -1)
    return -1;
  f.replaced.size = f.size;
  r = format_claimed (fd, path, force, &f, why, why_size);
  close (fd);
  if (r == 0)
    *result = f;
  return r;
}

/* ---- Serving ---- */

static int
check_content (const struct disk_content *c, const char *path, char *why,
               size_t why_size)
{
  switch (c->kind) {
  case DISK_BLANK:
    return refuse (why, why_size,
                   "%s is not formatted; run `weftctl disk "
                   "format %s` first",
                   path, path);
  case DISK_FOREIGN:
    return refuse (why, why_size,
                   "%s holds %s and no Weft member; check the "
                   "path",
                   path, c->text);
  case DISK_DAMAGED:
    return refuse (why, why_size,
                   "%s has %s; replace the disk, or format it "
                   "again with --force and rebuild it",
                   path, c->text);
  case DISK_WEFT:
    break;
  }
  if (c->size < c->sb.data_offset ||
      c->size - c->sb.data_offset < c->sb.data_bytes)
    return refuse (why, why_size,
                   "%s is shorter than when it was formatted: "
                   "it has %" PRIu64 " bytes, and had at least %" PRIu64
                   "; restore its size, or format it again",
                   path, c->size, c->sb.data_offset + c->sb.data_bytes);
  return 0;
}

/* ---- Descriptors to sync by. ---- */

#define SYNCS 32 /* at a time; further syncs wait */

struct disk_syncs {
  pthread_mutex_t lock;
  pthread_cond_t given;
  int fd[SYNCS]; /* the first `left` are free */
  unsigned count, left;
};

/* Returns 0, or -1 with errno. */
static int
open_syncs (struct disk *d)
{
  struct disk_syncs *s = d->syncs = calloc (1, sizeof *s);
  char self[64];

  if (s == NULL)
    return -1;
  /* The same disk, even if the path leads elsewhere by now. */
  snprintf (self, sizeof self, "/proc/self/fd/%d", d->data_fd);
  pthread_mutex_init (&s->lock, NULL);
  pthread_cond_init (&s->given, NULL);
  for (; s->count < SYNCS; s->left = ++s->count) {
    s->fd[s->count] = open (self, O_RDWR | O_CLOEXEC);
    if (s->fd[s->count] == -1)
      return -1;
  }
  return 0;
}

int
disk_sync_take (const struct disk *d)
{
  struct disk_syncs *s = d->syncs;
  int fd;

  pthread_mutex_lock (&s->lock);
  while (s->left == 0)
    pthread_cond_wait (&s->given, &s->lock);
  fd = s->fd[--s->left];
  pthread_mutex_unlock (&s->lock);
  return fd;
}

void
disk_sync_give (const struct disk *d, int fd)
{
  struct disk_syncs *s = d->syncs;

  pthread_mutex_lock (&s->lock);
  s->fd[s->left++] = fd;
  pthread_cond_signal (&s->given);
  pthread_mutex_unlock (&s->lock);
}

struct disk *
disk_open (const char *path, char *why, size_t why_size)
{
  struct disk *d = calloc (1, sizeof *d);
  struct disk_content c = { .kind = DISK_BLANK };
  uint8_t slot[SLOT_BYTES];
  bool mend = false, syncing;
  int err;

  if (d == NULL || (d->path = strdup (path)) == NULL) {
    free (d);
    refuse (why, why_size, "%s: out of memory", path);
    return NULL;
  }
  d->data_fd = open_claimed (path, &c.block_device, &c.size, why, why_size);
  if (d->data_fd == -1 ||
      examine (d->data_fd, path, &c, &mend, why, why_size) == -1 ||
      check_content (&c, path, why, why_size) == -1)
    goto error;
  d->block_device = c.block_device;
  d->size = c.size;
  d->sb = c.sb;
  if (open_syncs (d) == -1) {
    refuse (why, why_size,
            "%s cannot be opened %u times more: %s; is /proc "
            "mounted?",
            path, SYNCS, strerror (errno));
    goto error;
  }
  if (mend) { /* the bad or older slot becomes what the other one is */
    superblock_encode (&d->sb, slot);
    err = disk_write_header (d, slot, sizeof slot,
                             d->sb.sequence % 2 * SLOT_BYTES, &syncing);
    if (err) {
      refuse (why, why_size,
              "%s: its superblock cannot be written: %s; replace the disk",
              path, strerror (err));
      goto error;
    }
  }
  return d;

error:
  disk_close (d);
  return NULL;
}

void
disk_close (struct disk *d)
{
  if (d == NULL)
    return;
  for (unsigned i = 0; d->syncs && i < d->syncs->count; i++)
    close (d->syncs->fd[i]);
  free (d->syncs);
  if (d->data_fd != -1)
    close (d->data_fd);
  free (d->path);
  free (d);
}

int
disk_read_intents (struct disk *d, struct intents *map, unsigned *bad_blocks,
                   char *why, size_t why_size)
{
  uint8_t block[INTENT_BLOCK_BYTES];
  const char *reason;
  int err;

  *bad_blocks = 0;
  if (intents_init (map, intents_extents (d->sb.data_bytes)) == -1)
    return refuse (why, why_size, "%s: out of memory for its intent map",
                   d->path);
  for (unsigned i = 0; i < intents_blocks (map); i++) {
    err = file_read (d->data_fd, block, sizeof block,
                     INTENT_BLOCKS_OFFSET + (uint64_t) i * sizeof block);
    if (err) {
      intents_free (map);
      return refuse (why, why_size,
                     "%s: its intent map cannot be read: %s; "
                     "replace the disk",
                     d->path, strerror (err));
    }
    if (intents_decode (map, i, block, &reason) == -1)
      (*bad_blocks)++;
  }
  return 0;
}

int
disk_read_bad (struct disk *d, struct bad_list *list, bool *mend, char *why,
               size_t why_size)
{
  uint8_t slots[2 * BAD_SLOT_BYTES] = { 0 };
  const char *reason;
  int err = 0;

  if (d->sb.bad_offset)
    err = file_read (d->data_fd, slots, sizeof slots, d->sb.bad_offset);
  if (err)
    return refuse (why, why_size,
                   "%s: its list of bad ranges cannot be read: "
                   "%s; replace the disk",
                   d->path, strerror (err));
  if (bad_decode (slots, d->sb.data_bytes, list, mend, &reason) == -1)
    return refuse (
      why, why_size,
      "%s: both slots of its list of bad ranges are damaged (%s), so weftd "
      "cannot distinguish old data on it from good data; replace the disk, or "
      "format it again with --force and rebuild it",
      d->path, reason);
  return 0;
}

/* In a file the bytes are written twice, for only the first write can be refused for want
 * of room; an error of the second one may be that of the sync.
 */
int
disk_write_header (struct disk *d, const void *buf, size_t bytes,
                   uint64_t offset, bool *syncing)
{
  int fd, err = 0;

  *syncing = false;
  if (offset > HEADER_BYTES || bytes > HEADER_BYTES - offset)
    return EINVAL;
  if (!d->block_device)
    err = file_write (d->data_fd, buf, bytes, offset, 0);
  if (err)
    return err;
  *syncing = true;
  fd = disk_sync_take (d);
  err = file_write (fd, buf, bytes, offset, RWF_DSYNC);
  disk_sync_give (d, fd);
  return err;
}

/* ---- Room ---- */

bool
disk_room (const struct disk *d, struct disk_room *room)
{
  uint64_t whole = d->sb.data_offset + d->sb.data_bytes, has;
  struct statvfs fs;
  struct stat st;

  if (d->block_device || fstat (d->data_fd, &st) == -1 ||
      fstatvfs (d->data_fd, &fs) == -1 || fs.f_blocks == 0)
    return false;
  has = (uint64_t) st.st_blocks * 512;
  room->free = (uint64_t) fs.f_bavail * fs.f_frsize;
  room->size = (uint64_t) fs.f_blocks * fs.f_frsize;
  room->wanted = has < whole ? whole - has : 0;
  return true;
}

bool
disk_reserve (const struct disk *d, uint64_t offset, uint64_t bytes)
{
  struct disk_room room;
  int r;

  if (d->block_device)
    return true;
  do
    r = fallocate (d->data_fd, FALLOC_FL_KEEP_SIZE, offset, bytes);
  while (r == -1 && errno == EINTR);
  if (r == 0)
    return true;
  return errno == EOPNOTSUPP && disk_room (d, &room) && room.free >= bytes;
}

/* ---- What outlives a process ---- */

/* A disk that is found, or given a medium, gets a new number.  A partition's
 * number is in the whole disk's entry.  A file system without a disk of its own
 * has no number.
 */
static bool
disk_number (dev_t dev, char *number, size_t size)
{
  static const char *const places[] = { "", "/.." };
  char path[80];

  for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++) {
    snprintf (path, sizeof path, "/sys/dev/block/%u:%u%s/diskseq", major (dev),
              minor (dev), places[i]);
    if (file_line (path, number, size))
      return true;
  }
  return false;
}

void
disk_cache (const struct disk *d, char name[DISK_CACHE_BYTES])
{
  char boot[40], number[24];
  struct statx st;
  dev_t dev;
  int n;

  name[0] = '\0';
  if (statx (d->data_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) == -1)
    return;
  dev = d->block_device ? makedev (st.stx_rdev_major, st.stx_rdev_minor)
                        : makedev (st.stx_dev_major, st.stx_dev_minor);
  if (!file_line ("/proc/sys/kernel/random/boot_id", boot, sizeof boot) ||
      !disk_number (dev, number, sizeof number))
    return;
  n = snprintf (name, DISK_CACHE_BYTES, "%s %u:%u %s", boot, major (dev),
                minor (dev), number);
  /* A file's number may be another one's later: so, with when it was made. */
  if (!d->block_device)
    snprintf (name + n, DISK_CACHE_BYTES - n, " %" PRIu64 " %lld.%u",
              (uint64_t) st.stx_ino, (long long) st.stx_btime.tv_sec,
              st.stx_btime.tv_nsec);
}
