//! Tests over whole indexes: golden scores, random corpora, the folder itself.

mod folder;
mod golden;
mod oracle;
mod random;
mod support;
