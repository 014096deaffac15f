//! `sql`: a query over the tables of other stages.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use proofmill_pipeline::kinds::sql::Sql;

use crate::graph::Role;
use crate::sqltext;
use crate::stages::fingerprint::Counted;
use crate::stages::kind::{Kind, Preparation, Preparing, Repeats, Traits};
use crate::stages::queries::query::QueryPlan;

impl Kind for Sql {
    fn traits(&self) -> Traits {
        Traits {
            version: 2,
            rows_can_fail: false,
            has_partitions: true,
            settings: Counted::ByTheKind,
            repeats: Repeats::Set,
        }
    }

    fn prepare(&self, context: &mut Preparing<'_>) -> Option<Preparation> {
        let Preparing { inputs, query, engine, components, diagnostics, .. } = context;
        let mut named: HashMap<String, Arc<dyn TableProvider>> = HashMap::new();
        for input in &inputs.stage.inputs {
            if let Role::Table(written) = &input.role {
                named.insert(written.clone(), inputs.table_of(&input.stage)?);
            }
        }
        match diagnostics.query((*query)?, named, engine) {
            Ok(planned) => {
                components.set("settings.sql", sqltext::normalized(&self.0));
                for model in &planned.calls.models {
                    components.set_model(&format!("model.{model}"), model, engine, diagnostics)?;
                }
                let query = Some(planned.plan.clone());
                let preparation = Preparation::new(planned.schema, QueryPlan(planned.plan));
                Some(Preparation { query, ..preparation })
            }
            Err(error) => {
                diagnostics.sql(&["sql"], error);
                None
            }
        }
    }
}
