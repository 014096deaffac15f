//! Folders made here: what loads, and by which words the rest is refused.

mod chats;
mod digests;
mod folders;
pub(crate) mod made;
mod sentences;
mod settings;
pub(crate) mod texts;
mod weights;
