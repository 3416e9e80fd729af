//! Workers come and go, and get the requests that wait.

use std::collections::VecDeque;
use std::time::Instant;

use super::Core;
use super::Exchange;
use super::Fate;
use super::Stage;
use super::WorkerId;
use super::WorkerSide;
use super::pulse::Pulse;
use crate::bridge::Board;
use crate::bridge::Body;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::Kind;
use crate::bridge::request;
use crate::dispatch::choice;
use crate::dispatch::choice::Load;
use crate::dispatch::connection::Waiting;
use crate::dispatch::refuse;
use crate::dispatch::refuse::Refusal;
use crate::dispatch::upload_file::Upload;

/// What a worker's end did to the requests it had.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Begun and unfinished: answered 502, or cut off where bytes had gone out.
    pub begun: usize,
    /// Not begun: handed to another worker.
    pub put_back: usize,
    /// Finished by it in its life.
    pub finished: u64,
}

impl Core {
    /// A worker was started. It gets its settings first and requests when it is ready.
    pub fn add_worker(&mut self, id: WorkerId, board: Board, setup: &[u8]) {
        let mut out = Vec::new();
        frame::put(&mut out, Kind::Setup, 0, Ticket(0), setup);
        let load = Load::new(board.slots());
        let tickets = VecDeque::new();
        self.workers.insert(
            id,
            WorkerSide {
                load,
                stage: Stage::Loading,
                board,
                tickets,
                finished: 0,
                wears_out: None,
                out,
                pulse: Pulse::default(),
                told_stuck: false,
            },
        );
    }

    /// A worker is worn out when it has finished so many requests.
    pub fn wear_out(&mut self, id: WorkerId, requests: u64) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.wears_out = Some(requests);
        }
    }

    /// Workers that are worn out since the last call, and how many requests they have finished.
    pub fn worn(&mut self) -> Vec<(WorkerId, u64)> {
        std::mem::take(&mut self.worn)
    }

    /// A worker has loaded the application.
    pub fn worker_ready(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.stage == Stage::Loading
        {
            worker.stage = Stage::Ready;
        }
    }

    /// A worker gets no more requests, finishes what it has and ends.
    pub fn drain_worker(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.stage != Stage::Draining
        {
            worker.stage = Stage::Draining;
            frame::put(&mut worker.out, Kind::Drain, 0, Ticket(0), b"");
            // What it has may be stuck.
            self.look_at = self.clock.at;
        }
    }

    pub(super) fn ready_loads(&self) -> impl Iterator<Item = (WorkerId, &Load)> {
        let fit = |w: &WorkerSide| w.stage == Stage::Ready && !w.pulse.silent;
        self.workers.iter().filter(move |(_, w)| fit(w)).map(|(id, w)| (*id, &w.load))
    }

    pub(super) fn assign(&mut self, now: Instant) {
        while let Some(&key) = self.queue.front() {
            let stands = self.connections.get(&key).is_some_and(|c| c.queued);
            if !stands {
                self.queue.pop_front();
                continue;
            }
            let Some(id) = choice::choose(self.ready_loads(), now) else { return };
            self.queue.pop_front();
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            let Some(worker) = self.workers.get_mut(&id) else { continue };
            connection.queued = false;
            let Some(item) = connection.line.pop_front() else { continue };
            self.waiting -= 1;
            self.last_ticket += 1;
            let ticket = Ticket(self.last_ticket);
            connection.begin(ticket);
            let file = item.upload.as_ref().and_then(Upload::file);
            let body = match file {
                Some((path, id)) => Body::File(path, id),
                None if item.streamed => Body::Stream,
                None => Body::Message,
            };
            if let Some(inflow) = connection.inflow.as_mut().filter(|_| item.streamed) {
                inflow.reader = Some(ticket);
            }
            request::put(&mut worker.out, ticket, body, &item.message);
            worker.load.given(ticket.0);
            worker.tickets.push_back(ticket);
            let Waiting { message, received, since, upload, streamed, .. } = item;
            let exchange = Exchange {
                key,
                worker: id,
                ticket,
                message,
                received,
                given: now,
                since,
                upload,
                streamed,
                unacked: 0,
                gone: false,
                late: None,
                answered: false,
            };
            self.exchanges.insert(ticket, exchange);
        }
    }

    /// Takes back what waits behind the slots of a worker that has stopped finishing things.
    pub(super) fn recall(&mut self, now: Instant) {
        for worker in self.workers.values_mut().filter(|w| w.load.stalled(now)) {
            let begun = worker.board.begun();
            for &ticket in worker.tickets.iter().rev().take_while(|t| **t > begun) {
                frame::put(&mut worker.out, Kind::Recall, 0, ticket, b"");
            }
            worker.load.asked_back();
        }
    }

    /// Puts a request that was not begun back to the head of its line, and to its old place in the queue.
    pub(super) fn put_back(&mut self, exchange: Exchange) {
        let Some(connection) = self.connections.get_mut(&exchange.key) else { return };
        let Exchange { key, message, received, since, upload, streamed, .. } = exchange;
        connection.active = None;
        connection.line.push_front(Waiting {
            message,
            received,
            since,
            upload,
            streamed,
            refuse: None,
        });
        connection.queued = true;
        self.waiting += 1;
        let place = self.place_in_queue(since);
        self.queue.insert(place, key);
    }

    /// A worker is gone, and all that it had written has been read. What it had begun is answered for it; what it had not
    /// begun goes to another one. No request is run twice.
    pub fn worker_gone(&mut self, id: WorkerId) -> Loss {
        let Some(worker) = self.workers.remove(&id) else { return Loss::default() };
        let begun = worker.board.begun();
        let mut loss = Loss { finished: worker.finished, ..Loss::default() };
        // From the last to the first: each goes to the very front of the queue.
        for ticket in worker.tickets.into_iter().rev() {
            let Some(exchange) = self.exchanges.remove(&ticket) else { continue };
            if ticket <= begun {
                loss.begun += usize::from(!exchange.gone);
                self.answer_for(&exchange, Fate::WorkerDied, 502);
            } else if exchange.gone {
                self.over_without_worker(&exchange, Fate::ClientGone, 0);
            } else {
                loss.put_back += 1;
                self.put_back(exchange);
            }
        }
        loss
    }

    /// Nobody will run anything any more: everything that waits or runs is answered with 503, or cut off. Returns how many
    /// requests that were.
    pub fn give_up(&mut self) -> usize {
        let keys: Vec<_> = self.connections.keys().copied().collect();
        let mut answered = 0;
        for key in keys {
            let ticket = self.unrun_ticket();
            let Some(connection) = self.connections.get_mut(&key) else { continue };
            if let Some(exchange) = connection.active.and_then(|t| self.exchanges.remove(&t)) {
                answered += 1;
                self.answer_for(&exchange, Fate::Refused, 503);
            } else if !connection.out.is_empty() {
                // A whole answer is on its way; what waits behind it cannot be told anything.
                answered += connection.line.len();
                self.waiting -= connection.close();
                self.send_later(key);
            } else if let Some(item) = connection.line.pop_front() {
                answered += 1;
                self.waiting -= 1;
                let page =
                    refuse::answer(Refusal::Page(503), &item.message, &self.request_ids, ticket);
                self.waiting -= connection.fail(&page);
                self.send_later(key);
                self.counters.refused += 1;
                self.over_unrun(&item, ticket, Fate::Refused, 503);
            }
        }
        self.queue.clear();
        answered
    }

    pub(super) fn answer_for(&mut self, exchange: &Exchange, fate: Fate, status: u16) {
        let connection = self.connections.get_mut(&exchange.key).filter(|_| !exchange.gone);
        let Some(connection) = connection else {
            self.over_without_worker(exchange, Fate::ClientGone, 0);
            return;
        };
        let (refusal, ids) = (Refusal::Page(status), &self.request_ids);
        let page = refuse::answer(refusal, &exchange.message, ids, exchange.ticket);
        self.waiting -= connection.fail(&page);
        self.send_later(exchange.key);
        self.counters.refused += 1;
        self.over_without_worker(exchange, fate, status);
    }
}
