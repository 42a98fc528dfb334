/* test-cluster-bad.c: what members have in their lists of bad ranges, in offsets of
 * their array: each place once, with those that have it, and whether another copy may
 * be left.
 */

#include <config.h>

#include "test-cluster-world.h"

static void
member_says (unsigned m, const struct bad_list *list, uint64_t report)
{
  struct cluster_disk_heartbeat hb = disk_words (&world.disk[m], 0);

  hb.report = report;
  hb.bad = *list;
  ASK (cluster_disk_heartbeat (engine, in, &hb));
  assert (world.answer.kind == CLUSTER_REPLY_DISK);
}

/* code: of the refusal; NULL: it is accepted. */
static void
accept_loss (uint64_t offset, uint64_t length, const char *code)
{
  struct cluster_loss loss = { .count = 1, .range[0] = { offset, length } };

  ASK (cluster_array_accept_loss (engine, in, "a", &loss));
  if (code)
    expect_refused (world.answer, CLUSTER_CONFLICT, code);
  else
    assert (world.answer.kind == CLUSTER_REPLY_ARRAY);
}

/* It is an order to whoever writes, of what is listed.  Host 0 writes; three blocks
 * at the offset are bad.
 */
static void
test_loss (uint64_t offset)
{
  const struct cluster_array *a = array ();
  const struct cluster_session *s = cluster_array_writer (a);
  uint64_t number;

  accept_loss (offset, 16384, "not-bad");
  accept_loss (offset + 8192, 8192, "not-bad");
  accept_loss (offset - 4096, 8192, "not-bad");
  assert (cluster_session_loss (engine, s) == NULL);
  accept_loss (offset, 12288, NULL);
  assert (cluster_session_loss (engine, s)->range[0].length == 12288);
  assert (cluster_session_loss (engine, s)->epoch == a->rec.epoch);
  number = cluster_session_loss (engine, s)->number;
  accept_loss (offset, 4096, "loss-pending");
  host_beat (writer); /* is told, and asks anew when it lives on */
  writer->beat_op = 0;
  accept_loss (offset, 4096, NULL);
  assert (cluster_session_loss (engine, s)->range[0].length == 4096);
  assert (cluster_session_loss (engine, s)->number > number);
  for (unsigned ms = 0; ms < 11000; ms += 250)
    tick (250);
  /* He has heard of it, or never will. */
  assert (cluster_session_loss (engine, s) == NULL);
}

/* Not where a member that is out may have a good copy, nor where nobody writes. */
static void
test_no_loss (const struct layout_piece *p, const struct bad_list *data)
{
  const struct cluster_array *a = array ();
  struct cluster_bad *list;

  live_on (20); /* nobody was heard of while the order grew old */
  world.disk[p->copy[1].member].alive = false;
  report_lost (writer, p->copy[1].member);
  member_says (p->copy[0].member, data, 4);
  assert (cluster_array_bad (a, &list) == 1);
  assert (list->length == 12288 && list->copy_out && !list->copy_left);
  free (list);
  accept_loss (p->offset, 4096, "member-out");
  detach (writer);
  member_says (p->copy[0].member, data, 5);
  accept_loss (p->offset, 4096, "not-attached");
}

int
main (void)
{
  static struct bad_list data, image;
  struct cluster_bad *list;
  const struct cluster_array *a;
  struct layout_piece p;

  healthy ();
  a = array ();
  assert (cluster_array_bad (a, &list) == 0 && list == NULL);

  /* Three blocks on the data's member; the middle one on the image's as well. */
  layout_map (&a->layout, 3 * a->layout.unit + 8192, 12288, &p);
  assert (p.length == 12288);
  assert (bad_add (&data, p.copy[0].offset, 12288, BAD_RESYNC));
  assert (bad_add (&image, p.copy[1].offset + 4096, 4096, BAD_RESYNC));
  data.sequence = image.sequence = 1;
  member_says (p.copy[0].member, &data, 1);
  member_says (p.copy[1].member, &image, 1);
  assert (cluster_array_bad (a, &list) == 3);
  for (unsigned i = 0; i < 3; i++) {
    assert (list[i].offset == p.offset + i * 4096 && list[i].length == 4096);
    assert (list[i].reason == BAD_RESYNC && list[i].copy_left == (i != 1));
    assert (list[i].members == (i == 1 ? 2 : 1) && !list[i].copy_out);
  }
  free (list);
  assert (cluster_array_bad_bytes (a) == 12288);
  assert (verdict () == CLUSTER_ERROR);
  assert (says ("12 KiB of array a can't be read"));
  assert (cluster_array_bad_any (a));
  test_loss (p.offset);

  /* An unchanged report says it still; a new one without them takes it back.  What
   * the array does not use of a member is nobody's.
   */
  data.count = 0;
  data.sequence++;
  assert (bad_add (&data, a->layout.member_bytes, 4096, BAD_REBUILD));
  member_says (p.copy[0].member, &data, 2);
  assert (cluster_array_bad (a, &list) == 1);
  assert (list->offset == p.offset + 4096 && list->members == 1);
  assert (list->member[0] == p.copy[1].member && list->copy_left);
  free (list);
  image.count = 0;
  image.sequence++;
  member_says (p.copy[1].member, &image, 2);
  assert (cluster_array_bad_bytes (a) == 0 && cluster_array_bad_any (a));
  assert (!says ("can't be read"));
  data.count = 0;
  member_says (p.copy[0].member, &data, 3);
  assert (!cluster_array_bad_any (a));
  assert (bad_add (&data, p.copy[0].offset, 12288, BAD_RESYNC));
  test_no_loss (&p, &data);
  return 0;
}
