#ifndef WEFT_LOAD_H
#define WEFT_LOAD_H

#endif /* WEFT_LOAD_H */
