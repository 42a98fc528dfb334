/* store.h: durable records: a table (kind, key, JSON) with two operations: load
 * all, and one atomic transaction of puts and deletes.
 *
 * SQLite in WAL mode with synchronous=FULL is the embedded default; nothing
 * outside server/store/ knows that, so that another store can take its place.
 *
 * Transactions run on a thread of their own, in the order in which they were
 * submitted; several that wait are stored as one.  A store that fails once
 * takes nothing more: weftd must end, and begins again from what is durable.
 */

#ifndef WEFT_STORE_H
#define WEFT_STORE_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

#include <bsd/sys/queue.h>
#include <jansson.h>

struct store;

#define STORE_KEY_BYTES 80 /* a name fits */

#define STORE_NUMBER "%020" PRIu64 /* a key that is a number */

struct store_op {
  char kind[16];
  char key[STORE_KEY_BYTES];
  char *json; /* NULL: delete.  Owned by the transaction */
};

struct store_txn {
  STAILQ_ENTRY (store_txn) link;
  struct store_op *ops;
  size_t count, room;
  void *owner; /* the caller's own */
  /* Wanted: all records but some kinds (STORE_NOT_DUMPED), as they are when this one and all
   * before are durable: a JSON list of [kind, key, record].  NULL: they can't be read.
   */
  bool dumps;
  char *dump;
};

struct store_txn *store_txn_new (void);
void store_txn_free (struct store_txn *t);
/* `json` is taken over; NULL deletes. */
void store_txn_add (struct store_txn *t, const char *kind, const char *key,
                    char *json);
/* The same of an object, which is let go. */
void store_txn_put (struct store_txn *t, const char *kind, const char *key,
                    json_t *object);

/* The files that the store keeps in its directory: the database first, and its
 * companions.
 */
#define STORE_FILE "weftd.db"
#define STORE_FILES                                                            \
  STORE_FILE, STORE_FILE "-wal", STORE_FILE "-shm", STORE_FILE "-journal"
/* Are these the bytes of a store's database? */
bool store_is_database (const void *data, size_t bytes);

/* The end of a sentence that calls a database damaged: the way out. */
#define STORE_DAMAGED                                                          \
  "it is damaged: put a backup in its place by weftd --restore FILE "          \
  "--replace "                                                                 \
  "(weftd(8), BACKUP AND RESTORE)"

/* Take the lock of the directory, which is created if it is missing: its
 * descriptor, or -1 with a sentence in why.
 */
int store_lock (const char *dir, char *why, size_t why_size);

/* Open or make the store in the directory `dir`, which is created if it is
 * missing, and check it.  Only one process has it open at a time.  NULL: a
 * sentence in why.
 */
struct store *store_open (const char *dir, char *why, size_t why_size);
/* Tells the file of the database from any copy of it: when the file system made it. */
#define STORE_IDENTITY_BYTES 48
void store_identity (const struct store *s, char text[STORE_IDENTITY_BYTES]);
/* Waits for the transactions submitted so far. */
void store_close (struct store *s);

/* Call `each` for every record, kind by kind.  It returns 0, or -1 with a
 * sentence in why; store_load then does so too.
 */
int store_load (struct store *s,
                int (*each) (void *opaque, const char *kind, const char *key,
                             const char *json, char *why, size_t why_size),
                void *opaque, char *why, size_t why_size);

/* The loaded records are valid: start the thread.  `done` is called on it after
 * transactions became durable, or after the store failed; it must only wake the
 * loop, which then takes them one by one.
 */
int store_start (struct store *s, void (*done) (void *opaque), void *opaque,
                 char *why, size_t why_size);
void store_submit (struct store *s, struct store_txn *t);
/* A transaction that is durable now, in order, for the caller to free; NULL:
 * none at the moment.
 */
struct store_txn *store_take (struct store *s);
/* NULL, or why the store has failed. */
const char *store_error (struct store *s);
/* Says that the file system of its directory has little room; "": it has enough. */
void store_room (const struct store *s, char *text, size_t size);
/* Does the store wait for room now?  text: why, and advice. */
bool store_stalled (struct store *s, char *text, size_t size);

/* Records that a backup does not need, or secrets that must be made again:
 * logins, tokens, devices, answers that are kept to be given again, events of
 * the page.
 */
#define STORE_NOT_DUMPED                                                       \
  "'login', 'token', 'node-token', 'device', 'idempotency', 'event'"
/* Before it is started: store these, which are taken over. */
int store_fill (struct store *s, struct store_txn *t, char *why,
                size_t why_size);

#endif /* WEFT_STORE_H */
