#include <fcntl.h>
#include <unistd.h>

#include <exception>

#include "guard.hpp"
#include "job.hpp"
#include "message.hpp"
#include "options.hpp"

namespace {

// Where the caller has closed some, pipes and sockets of the launcher would take their places.
void open_standard_streams() {
    int descriptor = -1;
    do
        descriptor = ::open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor >= 0) ::close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
    using namespace coppice::run;
    open_standard_streams();
    try {
        const ParseResult parsed = parse_options(argc, argv);
        if (!parsed.options) return parsed.exit_code;
        return run_guarded([&](const SignalState& signals) {
            try {
                Job job(*parsed.options, signals);
                return job.run();
            } catch (const std::exception& error) {
                say("{}", error.what());
                return 1;
            }
        });
    } catch (const std::exception& error) {
        say("{}", error.what());
        return 1;
    }
}
