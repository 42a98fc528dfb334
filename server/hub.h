/* hub.h: events on their way to everyone who listens (server-sent events).
 *
 * The loop publishes; each listener's thread takes, at its own pace.  Stored
 * events have consecutive ids and are kept, EVENTS_MAX of them, so that a
 * listener may resume; a `load` event replaces the one before.
 */

#ifndef WEFT_HUB_H
#define WEFT_HUB_H

#include <stdbool.h>
#include <stdint.h>

#define EVENTS_MAX 2000

struct hub *hub_new (void);
void hub_free (struct hub *h);

/* `data` is one line of JSON; copied.  id is the last one + 1. */
void hub_publish (struct hub *h, uint64_t id, const char *name,
                  const char *data);
void hub_load (struct hub *h, const char *data);
/* Everyone who listens is to end. */
void hub_close (struct hub *h);

/* Can a listener that has seen events up to `id` go on from there? */
bool hub_has (struct hub *h, uint64_t id);
/* The number of listeners now; with none, no load event is needed. */
unsigned hub_listeners (struct hub *h);
void hub_listen (struct hub *h, int change); /* +1, -1 */

struct hub_cursor {
  uint64_t id;   /* the last stored event seen */
  uint64_t load; /* the last load event seen */
};

enum hub_result { HUB_EVENT, HUB_IDLE, HUB_BEHIND, HUB_CLOSED };

/* Wait for the next event, at most wait_ms.  HUB_EVENT: *text is the event in
 * the form of the protocol, for the caller to free.  HUB_BEHIND: the next one
 * is no longer kept; the listener needs a snapshot.
 */
enum hub_result hub_next (struct hub *h, struct hub_cursor *cursor, char **text,
                          unsigned wait_ms);

#endif /* WEFT_HUB_H */
