//! Tables of a lineage by the roles of their kinds.

use proofmill_catalog::lineage::{Lineage, Table, TableId};
use proofmill_pipeline::role::KindRole;

/// The role of a table; `None` if a later program made it, with a kind that this one does not have.
pub fn role(table: &Table) -> Option<KindRole> {
    KindRole::of(table.kind())
}

/// Whether a table has this role.
pub fn is(lineage: &Lineage, id: TableId, wanted: KindRole) -> bool {
    role(lineage.table(id)) == Some(wanted)
}

/// The tables with this role among `from` and its upstream tables, nearest first.
pub fn upstream(
    lineage: &Lineage,
    from: TableId,
    wanted: KindRole,
) -> impl Iterator<Item = TableId> {
    lineage.upstream(from).into_iter().filter(move |id| is(lineage, *id, wanted))
}

/// The instances of a union; any other table is its own only instance.
pub fn instances(lineage: &Lineage, id: TableId) -> Vec<TableId> {
    match role(lineage.table(id)) {
        Some(KindRole::Union) => lineage.inputs(id).collect(),
        _ => vec![id],
    }
}

/// The inputs whose entries a table hands on; `None` if it makes its own.
pub fn handed_on(lineage: &Lineage, id: TableId) -> Option<Vec<TableId>> {
    match role(lineage.table(id))? {
        KindRole::Retrieval => Some(lineage.input(id, "memory").into_iter().collect()),
        KindRole::Ranking | KindRole::Union | KindRole::Carried => {
            Some(lineage.inputs(id).collect())
        }
        _ => None,
    }
}
