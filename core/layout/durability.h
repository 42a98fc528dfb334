/* durability.h: how long a layout keeps data, by the usual Markov model.
 *
 * State i of a group of n members: i of them have failed and nothing is lost
 * yet.  Members fail independently of each other at a constant rate each; each
 * failed member is rebuilt at a constant rate, at once, onto a new disk.
 *
 *        n F q0          (n-1) F q1
 *   (0) ───────► (1) ──────────────► (2) ... each also ──(n-i) F (1-qi)──► lost
 *       ◄─────── R   ◄────────────── 2 R
 *
 * qi is the share of next failures that lose nothing.  It is counted, with
 * layout_loss, over all sets of i and of i + 1 members, which are taken as
 * equally likely (for raid-0, raid-1, raid-10 and raid-x they are).  Sets are
 * too many to count from some size on: then any further failure counts as a
 * loss, which makes the mean too small by next to nothing.
 *
 * The mean time to data loss is the mean time from state 0 to `lost`; with
 * several groups, of the first that loses something.  The closed forms:
 *
 *   raid-0              1 / (n F)
 *   raid-1 of 2         (3 F + R) / (2 F^2)
 *   raid-x, rotated     ((2 n - 1) F + R) / (n (n - 1) F^2)
 *
 * The model leaves out the usual causes of loss in real systems: disks of one
 * batch, one power supply, errors of people.  It is for comparing.
 */

#ifndef WEFT_DURABILITY_H
#define WEFT_DURABILITY_H

#include "layout.h"

/* The mean time to data loss, in the unit of time of the rates; fail and rebuild
 * are rates per member, and positive.
 */
double durability_mttdl (const struct layout *l, double fail, double rebuild);

#endif /* WEFT_DURABILITY_H */
