#ifndef WEFT_IMAGES_H
#define WEFT_IMAGES_H

#endif /* WEFT_IMAGES_H */
