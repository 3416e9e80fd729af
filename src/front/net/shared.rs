//! What all tasks of the front end share. There is one thread, so nothing of it is locked, and no borrow lasts over an
//! await.

use std::cell::Cell;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;
use std::time::Instant;

use super::client::Client;
use super::client::Fate;
use super::control::Ctl;
use super::live::limits;
use super::record::Record;
use super::told::Told;
use crate::config::Front;
use crate::config::RouteSpec;
use crate::front::core::Core;
use crate::front::core::PeerId;
use crate::front::core::RouteId;
use crate::front::fellows::Fellows;
use crate::front::fellows::SubId;
use crate::front::message;
use crate::front::message::Address;
use crate::front::message::Form;
use crate::front::pulse;
use crate::front::pulse::Beats;
use crate::proto::ConnId;
use crate::proto::Reply;
use crate::proto::hash::Quick;
use crate::telemetry::Limited;

/// Of the time between two looks at the clock so much counts as spent awake: in the rest we could hear no sign of life.
const SLEEP_MAX: Duration = Duration::from_millis(200);

/// Ids stay below this, so that handlers that take them for signed numbers see them right.
const ID_MAX: u32 = i32::MAX.cast_unsigned();

/// The state of the front end.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What holds now; whoever looks takes a copy of the pointer.
    pub(super) config: RefCell<Rc<Front>>,
    pub(super) routes: Vec<RouteSpec>,
    /// Our name in every message.
    pub(crate) ident: String,
    pub(crate) form: Form,
    pub(crate) core: RefCell<Core>,
    pub(crate) fellows: RefCell<Fellows>,
    beats: RefCell<Beats>,
    pub(crate) record: Record,
    clients: RefCell<HashMap<u32, Rc<Client>, Quick>>,
    writers: RefCell<HashMap<PeerId, Waker, Quick>>,
    last_conn: Cell<u32>,
    last_sub: Cell<u64>,
    lingering: Cell<usize>,
    stopping: Cell<bool>,
    doubted: Cell<bool>,
    noise: RefCell<Limited>,
    scratch: RefCell<Vec<u8>>,
    told: RefCell<Told>,
}

impl Shared {
    /// Before anything is connected. `first_conn` is where ids begin, so that late replies for an earlier run miss.
    pub(crate) fn new(
        config: Front,
        ident: String,
        form: Form,
        record: Record,
        first_conn: u32,
    ) -> Shared {
        let routes = config.handlers.routes.clone();
        let core = Core::new(limits(&config), routes.len());
        Shared {
            core: RefCell::new(core),
            config: RefCell::new(Rc::new(config)),
            routes,
            ident,
            form,
            fellows: RefCell::default(),
            beats: RefCell::default(),
            record,
            clients: RefCell::default(),
            writers: RefCell::default(),
            last_conn: Cell::new(first_conn % ID_MAX),
            last_sub: Cell::new(0),
            lingering: Cell::new(0),
            stopping: Cell::new(false),
            doubted: Cell::new(false),
            noise: RefCell::new(Limited::new()),
            scratch: RefCell::default(),
            told: RefCell::default(),
        }
    }

    /// The settings that hold now.
    pub(crate) fn config(&self) -> Rc<Front> {
        Rc::clone(&self.config.borrow())
    }

    /// What handlers are found by.
    pub(crate) fn routes(&self) -> &[RouteSpec] {
        &self.routes
    }

    pub(crate) fn address(&self, conn: ConnId) -> Address<'_> {
        Address { form: self.form, ident: &self.ident, conn }
    }

    /// A new client, with an id that no other has.
    pub(crate) fn welcome(&self) -> Rc<Client> {
        let mut clients = self.clients.borrow_mut();
        let id = self.next_conn(&clients);
        self.record.accepted();
        let client = Rc::new(Client::new(id));
        clients.insert(id.0, Rc::clone(&client));
        client
    }

    fn next_conn(&self, clients: &HashMap<u32, Rc<Client>, Quick>) -> ConnId {
        let mut id = self.last_conn.get();
        loop {
            id = if id >= ID_MAX { 1 } else { id + 1 };
            if !clients.contains_key(&id) {
                break;
            }
        }
        self.last_conn.set(id);
        ConnId(id)
    }

    /// The connection of a client is closed.
    pub(crate) fn farewell(&self, conn: ConnId) {
        self.clients.borrow_mut().remove(&conn.0);
    }

    /// Tells the peer that had a connection's last request that it is gone.
    pub(crate) fn tell_gone(&self, peer: PeerId, conn: ConnId) {
        self.tell(peer, conn, message::put_disconnect);
        self.told.borrow_mut().add(conn);
    }

    /// Connections of clients.
    pub(crate) fn connections(&self) -> usize {
        self.clients.borrow().len() + self.lingering.get()
    }

    /// One more connection is only read from until its client has seen why it ends, or one less.
    pub(crate) fn lingers(&self, more: isize) {
        self.lingering.set(self.lingering.get().saturating_add_signed(more));
    }

    pub(crate) fn next_sub(&self) -> SubId {
        self.last_sub.set(self.last_sub.get() + 1);
        SubId(self.last_sub.get())
    }

    /// Whether the end has been asked for.
    pub(crate) fn stopping(&self) -> bool {
        self.stopping.get()
    }

    /// From now on connections end when they are idle.
    pub(crate) fn stop(&self) {
        self.stopping.set(true);
        for client in self.clients.borrow().values() {
            client.news();
        }
    }

    /// Cuts off all clients.
    pub(crate) fn cut(&self) {
        for client in self.clients.borrow().values() {
            client.cancel();
        }
    }

    /// Who writes to a peer is woken by this.
    pub(crate) fn writer(&self, peer: PeerId, waker: &Waker) {
        self.writers.borrow_mut().insert(peer, waker.clone());
    }

    pub(crate) fn no_writer(&self, peer: PeerId) {
        self.writers.borrow_mut().remove(&peer);
    }

    /// Does something to the core, and wakes those who have to write because of it.
    pub(crate) fn with_core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core.borrow_mut();
        let result = act(&mut core);
        let writers = self.writers.borrow();
        core.woken(|peer| {
            if let Some(waker) = writers.get(&peer) {
                waker.wake_by_ref();
            }
        });
        result
    }

    /// Tells a peer something about a connection.
    pub(crate) fn tell(
        &self,
        peer: PeerId,
        conn: ConnId,
        put: impl FnOnce(&mut Vec<u8>, Address<'_>),
    ) {
        self.with_frame(|frame| {
            put(frame, self.address(conn));
            self.with_core(|core| core.tell(peer, conn, frame));
        });
    }

    /// Lends an empty buffer.
    pub(crate) fn with_frame<T>(&self, act: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut frame = self.scratch.take();
        frame.clear();
        let result = act(&mut frame);
        frame.shrink_to(256 * 1024);
        self.scratch.replace(frame);
        result
    }

    /// A peer is dead: its clients are told. Gives how many requests are lost.
    pub(crate) fn gone(&self, peer: PeerId) -> usize {
        self.fellows.borrow_mut().forget(peer);
        let anew = |conn: ConnId, message: &[u8]| self.renamed(conn, message);
        let lost = self.with_core(|core| core.gone(Instant::now(), peer, anew));
        let clients = self.clients.borrow();
        for conn in &lost {
            if let Some(client) = clients.get(&conn.0) {
                client.end_with(Fate::Lost);
            }
        }
        lost.len()
    }

    /// Gives a connection another id, and its request's message with it: should the handler that is taken for dead answer
    /// after all, that must not become a part of the other one's answer.
    fn renamed(&self, old: ConnId, message: &[u8]) -> (ConnId, Vec<u8>) {
        let mut clients = self.clients.borrow_mut();
        let (Some(client), new) = (clients.remove(&old.0), self.next_conn(&clients)) else {
            return (old, message.to_vec());
        };
        client.id.set(new);
        clients.insert(new.0, client);
        let mut frame = Vec::with_capacity(message.len() + 16);
        message::put_renamed(&mut frame, self.address(new), old, message);
        (new, frame)
    }

    /// A publishing connection has got our subscription: who waits for that may have requests.
    pub(crate) fn may_answer(&self, sub: SubId) {
        self.fellows.borrow_mut().subscribed(sub);
        self.wake_coming();
    }

    /// Lets those look who have come and were not given anything yet.
    fn wake_coming(&self) {
        let (core, writers) = (self.core.borrow(), self.writers.borrow());
        for waker in core.coming().filter_map(|peer| writers.get(&peer)) {
            waker.wake_by_ref();
        }
    }

    /// For how long a handler may rely on our next PING, in tenths of a second.
    pub(crate) fn time_to_live(&self) -> u16 {
        pulse::time_to_live(self.heartbeat())
    }

    fn heartbeat(&self) -> Duration {
        self.config().handlers.heartbeat
    }

    /// Looks what has taken too long. `time` has passed since the last look.
    pub(crate) fn tick(&self, now: Instant, time: Duration) {
        if self.beats.borrow_mut().passed(self.heartbeat(), time, SLEEP_MAX) {
            self.fellows.borrow().beat();
        }
        self.wake_coming();
        let expired = self.with_core(|core| core.expired(now));
        let clients = self.clients.borrow();
        for conn in expired {
            if let Some(client) = clients.get(&conn.0) {
                client.end_with(Fate::NoPeer);
            }
        }
        for client in clients.values() {
            client.look_at_the_clock(now);
        }
        self.told.borrow_mut().tick(now);
        self.record.flush();
    }

    /// A message of a handler.
    pub(crate) fn reply(&self, sub: SubId, message: &[u8]) {
        let reply = match Reply::parse(message) {
            Ok(reply) => reply,
            Err(error) => {
                self.record.bad_reply();
                self.complain(|| format!("a handler sent a message that is no reply: {error}"));
                return;
            }
        };
        // The subscription is by prefix; what is for another one whose name begins with ours is not meant for us.
        if reply.sender != self.ident.as_bytes() {
            return;
        }
        let ctl = if reply.extended { Ctl::read(reply.payload) } else { None };
        if reply.extended && ctl.is_none() {
            self.record.bad_reply();
            self.complain(|| "a handler sent a control message that is none".to_owned());
            return;
        }
        let limit = self.config.borrow().clients.reply_limit;
        for conn in reply.targets {
            let client = self.clients.borrow().get(&conn.0).cloned();
            match (client, ctl) {
                (Some(client), None) => {
                    // From now on it must not be asked of another one.
                    let peer = self.core.borrow_mut().answered(conn);
                    if peer.is_none() && !reply.payload.is_empty() {
                        client.unasked();
                        self.complain(|| {
                            format!(
                                "connection {conn} is closed: bytes came that nobody had asked for"
                            )
                        });
                    } else if !client.deliver(reply.payload, limit) {
                        self.complain(|| {
                            format!(
                                "connection {conn} is cut: its replies are beyond --reply-limit"
                            )
                        });
                    }
                    if let Some(peer) = peer {
                        self.fellows.borrow_mut().answered(peer, sub);
                    }
                }
                (Some(client), Some(ctl)) => client.control(ctl),
                (None, Some(Ctl { cancel: true, .. })) => {}
                (None, ctl) => {
                    self.unknown(sub, conn, ctl.is_none() && reply.payload.is_empty());
                }
            }
        }
    }

    /// A reply was for nobody: its handler is told that the connection is gone (protocol section 4.8), unless it closes
    /// what it knows to be gone.
    fn unknown(&self, sub: SubId, conn: ConnId, closes: bool) {
        if closes && self.told.borrow_mut().forget(conn) {
            return;
        }
        let peer = self.fellows.borrow().puller_of(sub);
        if let Some(peer) = peer.filter(|peer| self.told.borrow_mut().may_answer(*peer, conn)) {
            self.tell(peer, conn, message::put_disconnect);
        }
    }

    /// A handler has answered a streamed body of which it asked for nothing. It need not want it; but it may not know that
    /// there is more. That is said once.
    pub(crate) fn doubts_streams(&self, status: Option<u16>) {
        let taken = status.is_some_and(|status| status < 400);
        if taken && !self.doubted.replace(true) {
            crate::telemetry::warn!(
                "a handler has answered a large body of which it had the first part alone, and asked for no more: if it \
                 knows no streams, use --upload files or refuse"
            );
        }
    }

    /// Logs what a stranger can cause, at most one line a second.
    pub(crate) fn complain(&self, text: impl FnOnce() -> String) {
        if let Some(held) = self.noise.borrow_mut().allow(Instant::now()) {
            crate::telemetry::warn!("{}{held}", text());
        }
    }
}

impl Shared {
    /// The route of a path: the longest with which it begins.
    pub(crate) fn route(&self, path: &[u8]) -> Option<RouteId> {
        let routes = self.routes.iter().enumerate();
        let fits = routes.filter(|(_, route)| path.starts_with(route.path.as_bytes()));
        fits.max_by_key(|(_, route)| route.path.len()).map(|(number, _)| RouteId(number))
    }
}
