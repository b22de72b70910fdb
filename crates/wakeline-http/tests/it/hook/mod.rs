//! Webhooks over HTTP: the routes that published Svix clients use, and those that Wakeline adds.

mod catalog;
mod hostile;
mod messages;
mod pull;
mod receiver;
mod simple;
