/* In C any int may be handed over as a status; C++ would call that undefined. */
#include "coppice/coppice.h"

const char* string_of_any_status(int number);

const char* string_of_any_status(int number) {
    return coppice_status_string((coppice_status_t)number);
}
