//! Tables: sources, SQL, statistics, searches, exports, programs of users.

mod command;
mod dense;
mod exports;
mod functions;
mod input;
mod known_sql;
mod neighbours;
mod opened;
mod reading;
mod rounded;
mod rows;
mod statistics;
