/* disk.h: a member's header on a real disk or file: probing, formatting,
 * opening exclusively, reading and writing superblock slots.
 */

#ifndef WEFT_DISK_H
#define WEFT_DISK_H

#endif /* WEFT_DISK_H */
