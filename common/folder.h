/* folder.h: files in folders where no other user may put anything.
 *
 * Root's programs create, read and remove files by a descriptor of a folder that was
 * checked, and never follow another user's link.  "Ours" is what belongs to the user of
 * this process.  Functions that fail return -1 with errno, and with a sentence in why
 * where they have one.
 */

#ifndef WEFT_FOLDER_H
#define WEFT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FOLDER_NAME_BYTES 256

/* Open the folder of what is at this absolute path; its name there is put into name, and
 * is no link.  The last part may be missing.  Links are followed.  Each folder and link
 * on the way must be root's or ours, and nobody else may write to such a folder, unless
 * it has the sticky bit, as /tmp.  For root no group may write to it, either.  For another
 * user its own group and root's may, and access control lists are not looked at.
 */
int folder_find (const char *path, char name[FOLDER_NAME_BYTES], char *why,
                 size_t why_size);

/* Open the folder `name` in this one, which is made with mode 0700 if `create` is set.  It
 * must be ours, no link, and nobody else may write to it.  ENOENT: there is none.
 */
int folder_enter (int folder, const char *name, bool create, char *why,
                  size_t why_size);

/* Open a file for reading: a regular file of ours, no link. */
int folder_read (int folder, const char *name);

/* Make a new file for writing; a file or link with this name is removed first. */
int folder_create (int folder, const char *name, mode_t mode);

#endif /* WEFT_FOLDER_H */
