//! The settings by their groups. Each file has all there is about one: the rows of the table, the checked values, and how
//! these are read; nothing about a setting is anywhere else in `config`.

pub(super) mod admin;
pub(super) mod application;
pub(super) mod clients;
pub(super) mod delivery;
pub(super) mod front_end;
pub(super) mod general;
pub(super) mod handlers;
pub(super) mod limits;
pub(super) mod loading;
pub(super) mod log;
pub(super) mod process;
pub(super) mod recycle;
pub(super) mod timeouts;
pub(super) mod uploads;
pub(super) mod workers;
