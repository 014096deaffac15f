//! Runs: order, limits, death and resumption, damaged stores, which run is meant.

mod attribution;
mod budget;
mod checks;
mod comparing;
mod estimates;
mod limits;
mod lives;
mod location;
mod memory;
mod order;
mod repeat;
mod resume;
mod runs;
mod store_faults;
mod which_run;
