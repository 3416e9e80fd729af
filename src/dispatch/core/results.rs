//! What workers send back.

use std::time::Instant;

use super::Core;
use super::Exchange;
use super::Fate;
use super::Stage;
use super::WorkerId;
use crate::bridge::EndInfo;
use crate::bridge::Ticket;
use crate::bridge::frame;
use crate::bridge::frame::Kind;

impl Core {
    /// Response bytes of an exchange.
    pub fn data(&mut self, id: WorkerId, ticket: Ticket, bytes: &[u8], now: Instant) {
        let Some(exchange) = self.exchanges.get_mut(&ticket).filter(|e| e.worker == id) else {
            return;
        };
        exchange.unacked += bytes.len() as u64;
        if !exchange.gone {
            let key = exchange.key;
            if let Some(connection) = self.connections.get_mut(&key) {
                self.spool.at(now);
                connection.push(bytes, &mut self.spool);
            }
            self.send_later(key);
        }
        self.acknowledge(ticket);
    }

    /// An exchange is over: a slot is free, and the next of its connection may come.
    pub fn ended(
        &mut self,
        id: WorkerId,
        ticket: Ticket,
        end: &EndInfo,
        line: &[u8],
        now: Instant,
    ) {
        let Some(exchange) = self.release(id, ticket) else { return };
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.load.ended(now, end.service_ns);
            worker.finished += 1;
            if worker.stage == Stage::Draining {
                // What is left may be stuck.
                self.look_at = now;
            }
            if worker.wears_out == Some(worker.finished) {
                self.worn.push((id, worker.finished));
            }
        }
        self.over(&exchange, end, line);
        if exchange.gone {
            return;
        }
        let keep = end.keep && exchange.streamed;
        let keep = if keep { self.body_over(exchange.key, ticket, now) } else { end.keep };
        if let Some(connection) = self.connections.get_mut(&exchange.key) {
            connection.touched = now;
            self.waiting -= connection.end(keep);
            self.send_later(exchange.key);
        }
    }

    /// A worker gives back what it has not begun.
    pub fn recalled(&mut self, id: WorkerId, ticket: Ticket) {
        let Some(exchange) = self.release(id, ticket) else { return };
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.load.returned();
        }
        if exchange.gone {
            self.over_without_worker(&exchange, Fate::ClientGone, 0);
        } else {
            self.put_back(exchange);
        }
    }

    pub(super) fn release(&mut self, id: WorkerId, ticket: Ticket) -> Option<Exchange> {
        if self.exchanges.get(&ticket)?.worker != id {
            return None;
        }
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.tickets.retain(|t| *t != ticket);
        }
        self.exchanges.remove(&ticket)
    }

    /// Tells a worker that its bytes were taken, when enough has come together and there is room for more.
    pub(super) fn acknowledge(&mut self, ticket: Ticket) {
        let Some(exchange) = self.exchanges.get_mut(&ticket) else { return };
        if exchange.unacked < frame::WINDOW / 4 {
            return;
        }
        let room = exchange.gone
            || self.connections.get(&exchange.key).is_none_or(|c| c.out.has_room(&self.spool));
        if let Some(worker) = self.workers.get_mut(&exchange.worker).filter(|_| room) {
            let bytes = exchange.unacked.to_le_bytes();
            frame::put(&mut worker.out, Kind::Ack, 0, ticket, &bytes);
            exchange.unacked = 0;
        }
    }
}
