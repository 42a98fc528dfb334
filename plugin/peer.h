#ifndef WEFT_PEER_H
#define WEFT_PEER_H

#endif /* WEFT_PEER_H */
