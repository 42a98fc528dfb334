#ifndef WEFT_CONTROL_H
#define WEFT_CONTROL_H

#endif /* WEFT_CONTROL_H */
