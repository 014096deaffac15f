//! What goes over the wire and what is made of it, against a scripted server; and, where one is
//! named, against a real one.

mod answers;
mod fake_clock;
mod fake_server;
mod limits;
mod live;
mod refusals;
mod requests;
mod retries;
mod support;
