//! Webhooks over HTTP, as the published clients ask for them and as Wakeline adds to them.

mod catalog;
mod hostile;
mod messages;
mod plain;
mod pull;
mod receiver;
