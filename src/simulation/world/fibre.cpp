// swapcontext makes a system call each time. So a context only starts a fibre, and jumps go on from there.
#undef _FORTIFY_SOURCE  // which takes a jump to another stack for a mistake

#include "simulation/world/fibre.hpp"

#include <sys/mman.h>
#include <ucontext.h>

#include <new>

namespace coppice::world {
namespace {

constexpr std::size_t kStack = 512U * 1024;
constexpr std::size_t kGuard = 4096;

}  // namespace

Fibre* Fibre::current_ = nullptr;

Fibre::Fibre() {
    void* const memory = mmap(nullptr, kGuard + kStack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    stack_ = static_cast<std::byte*>(memory);
    if (mprotect(stack_ + kGuard, kStack, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

Fibre::~Fibre() {
    munmap(stack_, kGuard + kStack);
}

void Fibre::start(void (*body)(void*), void* argument) {
    body_ = body;
    argument_ = argument;
    begun_ = false;
    over_ = false;
}

void Fibre::enter() {
    current_->body_(current_->argument_);
    current_->over_ = true;
    suspend();
}

void Fibre::resume() {
    current_ = this;
    if (_setjmp(outside_) == 0) {
        if (begun_) _longjmp(inside_, 1);
        begun_ = true;
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = stack_ + kGuard;
        context.uc_stack.ss_size = kStack;
        context.uc_link = nullptr;
        makecontext(&context, &Fibre::enter, 0);
        setcontext(&context);
    }
    current_ = nullptr;
}

void Fibre::suspend() {
    Fibre* const self = current_;
    if (_setjmp(self->inside_) == 0) _longjmp(self->outside_, 1);
}

}  // namespace coppice::world
