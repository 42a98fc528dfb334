/* role.h: the plugin has two roles, one process each (docs/DESIGN.md
 * 3.1).
 *
 * weft.c reads the parameters, picks the role, and passes nbdkit's calls on
 * to it.  Every function is as in nbdkit-plugin(3): errors go to
 * nbdkit_error, the errno to nbdkit_set_error, -1 is returned.  get_ready returns
 * an object, which weft.c passes to the others (`it`); NULL is an error.
 */

#ifndef WEFT_ROLE_H
#define WEFT_ROLE_H

#include <stdbool.h>
#include <stdint.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

/* The parameters of `nbdkit weft`; NULL or 0 where not given. */
struct params {
  char *disk;    /* member role: path */
  char *uuid;    /* member role: of the only disk that is served; "": any */
  char *array;   /* array role: name */
  char *map;     /* array role from a static map: path */
  char *service; /* array role by way of an array's service: the array's name */
  char *client;  /* by way of a service: the file of our identity: path */
  char *admin;   /* URL of weftd */
  char *uri;     /* NBD URI under which others reach this process */
  char *node;    /* name of this host; default: its hostname */
  char *tls;     /* folder of this host's certificate; default: $WEFT_TLS */
  int64_t image_buffer_bytes;
  unsigned image_age_ms;
  unsigned io_timeout_ms;
  unsigned
    full_wait_ms; /* array role: a write waits so long for space in a pool */
  bool takeover;  /* array role: take the array from a host that lives */
  bool serves; /* array role: serve the array to others, when it is our turn */
  /* Array role: others write the array at the same time, by leases: each a part, which is
   * a pinned one, or ...
   */
  bool shared;
  uint64_t part_offset, part_length; /* length 0: up to the array's end */
  bool leases;                       /* ... those that come and go */
};
extern struct params params;

struct role {
  void *(*get_ready) (void);
  int (*after_fork) (void *it);
  void (*cleanup) (void *it);

  /* NULL: it lists none. */
  int (*list_exports) (void *it, struct nbdkit_exports *exports);
  void *(*open) (void *it, int readonly);
  void (*close) (void *handle);
  int64_t (*get_size) (void *handle);
  int (*block_size) (void *handle, uint32_t *minimum, uint32_t *preferred,
                     uint32_t *maximum);
  bool (*can_write) (void *handle);
  /* The session that it belongs to; may that only read?  NULL: it belongs to none. */
  uint64_t (*session) (void *handle, bool *reads);

  int (*pread) (void *handle, void *buf, uint32_t count, uint64_t offset,
                uint32_t flags);
  int (*pwrite) (void *handle, const void *buf, uint32_t count, uint64_t offset,
                 uint32_t flags);
  int (*flush) (void *handle, uint32_t flags);
  int (*trim) (void *handle, uint32_t count, uint64_t offset, uint32_t flags);
  int (*zero) (void *handle, uint32_t count, uint64_t offset, uint32_t flags);
  int (*extents) (void *handle, uint32_t count, uint64_t offset, uint32_t flags,
                  struct nbdkit_extents *extents);
};

extern const struct role array_role, member_role;

#endif /* WEFT_ROLE_H */
