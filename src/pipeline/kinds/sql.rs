//! Settings of `sql`: a query over other stages. The query is the whole setting; the tables it
//! names are its inputs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One `SELECT` over the tables of other stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Sql(#[schemars(length(min = 1))] pub String);
