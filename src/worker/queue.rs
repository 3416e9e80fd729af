//! Requests between the reader and the slots, in order; and which slots are called to take them.
//!
//! At most one slot at a time is on its way from its rest to the queue. It takes the interpreter first and its request then,
//! and calls the next slot if there is more. So quick requests are served by a slot that is running already, and not by
//! all slots in turn, each of which would have to be woken and to wait for the interpreter; and an application that waits,
//! which leaves the interpreter to others, has as many slots at work as there are. It never waits while its lock is held.

use std::collections::VecDeque;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use super::Wait;

/// What waits, and who rests.
#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    change: Condvar,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    closed: bool,
    /// Slots that rest.
    resting: usize,
    call: Call,
}

/// The one slot that has been called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// There is none.
    No,
    /// One of those that rest is to come.
    Out,
    /// It is coming.
    Heard,
}

/// What there is for a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<T> {
    Item(T),
    /// Nothing now.
    Empty,
    /// Nothing, and nothing will come.
    Closed,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (items, closed, resting, call) = (VecDeque::new(), false, 0, Call::No);
        Queue { state: Mutex::new(State { items, closed, resting, call }), change: Condvar::new() }
    }
}

impl<T: Send> Queue<T> {
    /// Adds one at the end, and calls a slot if none is coming. Gives it back if the queue is closed.
    pub(super) fn push(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        if state.closed {
            return Err(item);
        }
        state.items.push_back(item);
        self.call(state);
        Ok(())
    }

    /// Takes the first, without waiting.
    pub(super) fn take(&self) -> Next<T> {
        self.first(self.lock())
    }

    /// Rests until there may be something, and takes it.
    pub(super) fn rest(&self, wait: &impl Wait) -> Next<T> {
        wait.wait(&mut || {
            let mut state = self.lock();
            state.resting += 1;
            // What came since the last look has called nobody if nobody rested.
            if !state.items.is_empty() && state.call == Call::No {
                state.call = Call::Out;
            }
            let idle = |state: &mut State<T>| state.call != Call::Out && !state.closed;
            state = self.change.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
            state.resting -= 1;
            if state.call == Call::Out {
                state.call = Call::Heard;
            }
        });
        let mut state = self.lock();
        // Only who heard it can be here while it is so, but for the end, when all come.
        if state.call == Call::Heard {
            state.call = Call::No;
        }
        self.first(state)
    }

    /// Nothing more will come; what is there will be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.change.notify_all();
    }

    fn first(&self, mut state: MutexGuard<'_, State<T>>) -> Next<T> {
        match state.items.pop_front() {
            Some(item) => {
                self.call(state);
                Next::Item(item)
            }
            None if state.closed => Next::Closed,
            None => Next::Empty,
        }
    }

    fn call(&self, mut state: MutexGuard<'_, State<T>>) {
        if state.call == Call::No && state.resting > 0 && !state.items.is_empty() {
            state.call = Call::Out;
            drop(state);
            self.change.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Bare;
    use std::sync::Arc;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::thread::Builder;

    /// Takes until the queue is closed; `act` is what becomes of each.
    fn slot(
        queue: &Arc<Queue<usize>>,
        act: impl Fn(usize) + Send + 'static,
    ) -> std::thread::JoinHandle<usize> {
        let queue = Arc::clone(queue);
        let work = move || {
            let mut taken = 0;
            loop {
                let next = match queue.take() {
                    Next::Empty => queue.rest(&Bare),
                    next => next,
                };
                match next {
                    Next::Item(item) => {
                        act(item);
                        taken += 1;
                    }
                    Next::Empty => {}
                    Next::Closed => return taken,
                }
            }
        };
        Builder::new().spawn(work).unwrap()
    }

    #[test]
    fn in_order_and_to_the_end() {
        let queue = Queue::default();
        assert_eq!(queue.take(), Next::Empty);
        for item in 1..=3 {
            queue.push(item).unwrap();
        }
        assert_eq!((queue.take(), queue.rest(&Bare)), (Next::Item(1), Next::Item(2)));
        queue.close();
        assert_eq!(queue.push(4), Err(4));
        assert_eq!(
            (queue.take(), queue.take(), queue.rest(&Bare)),
            (Next::Item(3), Next::Closed, Next::Closed)
        );
    }

    #[test]
    fn those_who_wait_are_joined_by_all_others() {
        let (queue, together) = (Arc::new(Queue::default()), Arc::new(Barrier::new(4)));
        let slots: Vec<_> = (0..4)
            .map(|_| {
                let together = Arc::clone(&together);
                slot(&queue, move |_| {
                    together.wait();
                })
            })
            .collect();
        for item in 0..40 {
            queue.push(item).unwrap();
        }
        queue.close();
        // With a slot too few at work none of it would end.
        let taken: usize = slots.into_iter().map(|slot| slot.join().unwrap()).sum();
        assert_eq!(taken, 40);
    }

    #[test]
    fn nothing_stays_behind() {
        for _ in 0..200 {
            let (queue, done) = (Arc::new(Queue::default()), Arc::new(AtomicUsize::new(0)));
            let slots: Vec<_> = (0..3)
                .map(|_| {
                    let done = Arc::clone(&done);
                    slot(&queue, move |_| {
                        done.fetch_add(1, Ordering::Relaxed);
                    })
                })
                .collect();
            for item in 0..50 {
                queue.push(item).unwrap();
            }
            // Without an end that would call them all.
            while done.load(Ordering::Relaxed) < 50 {
                std::thread::yield_now();
            }
            queue.close();
            for slot in slots {
                slot.join().unwrap();
            }
        }
    }
}
