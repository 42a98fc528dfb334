/* routes-internal.h: the functions of the routes that are not in routes.c. */

#ifndef WEFT_ROUTES_INTERNAL_H
#define WEFT_ROUTES_INTERNAL_H

#include "routes.h"

/* routes-disk.c */
void parse_disk_heartbeat (struct fields *f, struct request *r);
void handle_disk_heartbeat (struct loop *l, struct request *r);
void handle_disks (struct loop *l, struct request *r);
void handle_disk (struct loop *l, struct request *r);
void handle_disk_forget (struct loop *l, struct request *r);

/* routes-rebuild.c */
void parse_disk_name (struct fields *f, struct request *r);
void handle_replace (struct loop *l, struct request *r);
void handle_cancel (struct loop *l, struct request *r);
void handle_join (struct loop *l, struct request *r);
void parse_member_tune (struct fields *f, struct request *r);
void handle_member_tune (struct loop *l, struct request *r);
void handle_spare_add (struct loop *l, struct request *r);
void handle_spare_drop (struct loop *l, struct request *r);
void parse_array_tune (struct fields *f, struct request *r);
void handle_array_tune (struct loop *l, struct request *r);
void handle_rebuilds (struct loop *l, struct request *r);
void handle_imports (struct loop *l, struct request *r);
void parse_import (struct fields *f, struct request *r);
void handle_import (struct loop *l, struct request *r);

#endif /* WEFT_ROUTES_INTERNAL_H */
