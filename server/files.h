/* files.h: the page and what it is built with, from directories. */

#ifndef WEFT_FILES_H
#define WEFT_FILES_H

struct mg_connection;

/* Serve one file, whatever its path; `name` decides its type. */
int files_serve (struct mg_connection *conn, const char *file,
                 const char *name);

/* Serve what a URL path names: "/" is index.html of ui_dir, "/vendor/NAME/..."
 * comes from Debian's directories, all else from ui_dir.  Both return the HTTP
 * status.
 */
int files_serve_path (struct mg_connection *conn, const char *ui_dir,
                      const char *path);

#endif /* WEFT_FILES_H */
