//! Folders made here, loaded into a backend that only remembers.

mod configs;
mod parts;
mod plain;
mod refused;
