#include <exception>

#include "guard.hpp"
#include "job.hpp"
#include "message.hpp"
#include "options.hpp"

int main(int argc, char** argv) {
    using namespace coppice::run;
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
