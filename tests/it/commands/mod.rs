//! What people see and type: output, logs, audits, pages, projects, guides.

mod audit;
mod audit_items;
mod broken;
mod guides;
mod hostile;
mod logs;
mod output;
mod projects;
mod report;
mod secrets;
