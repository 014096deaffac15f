//! The sample: the first records of all files, which determine the columns and their types.

use indexmap::{IndexMap, IndexSet};

use crate::cells::CellGuess;
use crate::columns::{Column, Plan};
use crate::error::FilesError;
use crate::field_path::FieldPath;
use crate::format::Fields;
use crate::infer::Guess;
use crate::json::{Object, get};
use crate::kind::Kind;
use crate::limits::COLUMNS_MAX;
use crate::records::RecordContent;
use crate::settings::{Options, Wanted};
use proofmill_base::styled::printable;
use proofmill_base::suggest;

/// Columns that notes name.
const NOTES_MAX: usize = 5;

/// What the records so far have shown.
pub struct Sample<'o> {
    options: &'o Options,
    records: u64,
    /// Top-level fields of objects, or columns named by headers.
    names: IndexSet<String>,
    /// Types of top-level fields, when all are wanted.
    fields: IndexMap<String, Guess>,
    /// Types of the wanted fields, in their order.
    wanted: Vec<Seen>,
    cells: Vec<CellGuess>,
}

/// What a wanted path has led to.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// As the very name of a top-level field.
    literal: Option<Guess>,
    /// As a path, if it is one.
    path: Option<FieldPath>,
    followed: Option<Guess>,
}

impl<'o> Sample<'o> {
    /// An empty sample.
    pub fn new(options: &'o Options) -> Self {
        let seen =
            |wanted: &Wanted| Seen { path: FieldPath::parse(&wanted.path).ok(), ..Seen::default() };
        Self {
            options,
            records: 0,
            names: IndexSet::new(),
            fields: IndexMap::new(),
            wanted: options.columns.iter().flatten().map(seen).collect(),
            cells: Vec::new(),
        }
    }

    /// Takes the names of the columns of a file with cells.
    pub fn header(&mut self, header: &[String]) {
        self.names.extend(header.iter().cloned());
        self.cells.resize(self.names.len(), CellGuess::default());
    }

    /// Takes the next record, of a file with `header` if it has cells.
    pub fn add(
        &mut self,
        content: &RecordContent<'_>,
        header: &[String],
    ) -> Result<(), FilesError> {
        self.records += 1;
        match content {
            RecordContent::Object(object) if self.options.columns.is_none() => self.add_all(object),
            RecordContent::Object(object) => {
                self.add_wanted(object);
                Ok(())
            }
            RecordContent::Cells(cells) => {
                for (name, cell) in header.iter().zip(cells) {
                    if let (Some(cell), Some(i)) = (cell, self.names.get_index_of(name)) {
                        self.cells[i].add(cell);
                    }
                }
                Ok(())
            }
        }
    }

    /// The columns that the sample and the settings make.
    pub fn plan(&self) -> Result<Plan, FilesError> {
        match &self.options.columns {
            Some(wanted) => {
                let columns = wanted.iter().zip(&self.wanted);
                let columns = columns.map(|(wanted, seen)| self.column(wanted, seen));
                Plan::new(columns.collect::<Result<_, _>>()?, false)
            }
            None => {
                let cells = self.names.iter().enumerate().map(|(i, name)| (name, self.cell(i)));
                let fields = self.fields.iter().map(|(name, guess)| (name, Some(guess.kind())));
                let column = |(name, kind): (&String, Option<Kind>)| {
                    let path = FieldPath::literal(name);
                    Some(Column { name: name.clone(), path, kind: kind?, declared: false })
                };
                Plan::new(fields.chain(cells).filter_map(column).collect(), true)
            }
        }
    }

    /// What a person should know about the types of the columns.
    pub fn notes(&self) -> Vec<String> {
        let typed = |wanted: &Wanted| wanted.declared.is_some();
        let cells = |name: &str| {
            let cell = self.names.get_index_of(name).and_then(|i| self.cells.get(i));
            self.options.fields() != Fields::Line && cell.is_some_and(CellGuess::has_digits)
        };
        let columns: Vec<&str> = match &self.options.columns {
            Some(wanted) if self.has_cells() => {
                let found = wanted.iter().filter(|wanted| !typed(wanted) && cells(&wanted.path));
                found.map(|wanted| wanted.name.as_str()).collect()
            }
            Some(wanted) => {
                let found = wanted.iter().zip(&self.wanted).filter(|(wanted, seen)| {
                    let guess = seen.literal.as_ref().or(seen.followed.as_ref());
                    !typed(wanted) && guess.is_some_and(Guess::has_digits)
                });
                found.map(|(wanted, _)| wanted.name.as_str()).collect()
            }
            None if self.has_cells() => {
                self.names.iter().map(String::as_str).filter(|name| cells(name)).collect()
            }
            None => {
                let found = self.fields.iter().filter(|(_, guess)| guess.has_digits());
                found.map(|(name, _)| name.as_str()).collect()
            }
        };
        let note = |column: &&str| {
            format!(
                "the column `{}` holds numbers that no number type keeps: they are text, as written",
                printable(column, false)
            )
        };
        let more = columns.len().saturating_sub(NOTES_MAX);
        let more = (more > 0).then(|| format!("{more} more columns hold such numbers"));
        columns.iter().take(NOTES_MAX).map(note).chain(more).collect()
    }

    fn add_all(&mut self, object: &Object<'_>) -> Result<(), FilesError> {
        for (i, (name, value)) in object.iter().enumerate() {
            let known = match self.fields.get_index_mut(i) {
                Some((key, guess)) if key == name => Some(guess),
                _ => None,
            };
            match known {
                Some(guess) => guess.add(value),
                None => self.fields.entry(name.as_ref().to_owned()).or_default().add(value),
            }
        }
        if self.fields.len() > COLUMNS_MAX { Err(FilesError::TooManyColumns) } else { Ok(()) }
    }

    fn add_wanted(&mut self, object: &Object<'_>) {
        if self.names.len() < COLUMNS_MAX {
            for (name, _) in object {
                if !self.names.contains(name.as_ref()) {
                    self.names.insert(name.as_ref().to_owned());
                }
            }
        }
        for (wanted, seen) in self.options.columns.iter().flatten().zip(&mut self.wanted) {
            if let Some(value) = get(object, &wanted.path, 0) {
                seen.literal.get_or_insert_default().add(value);
            } else if let Some(Ok(Some(value))) = seen.path.as_ref().map(|path| path.find(object)) {
                seen.followed.get_or_insert_default().add(value);
            }
        }
    }

    /// The type of a column of cells.
    fn cell(&self, i: usize) -> Option<Kind> {
        match self.options.fields() {
            Fields::Line => Some(Kind::Text),
            _ => self.cells.get(i).map(CellGuess::kind),
        }
    }

    fn column(&self, wanted: &Wanted, seen: &Seen) -> Result<Column, FilesError> {
        let Wanted { name, path, .. } = wanted;
        let literal = FieldPath::literal(path);
        let has_cells = self.has_cells();
        let (path, kind) = if has_cells {
            let index = self.names.get_index_of(path);
            (literal, index.and_then(|i| self.cell(i)))
        } else if let Some(guess) = &seen.literal {
            (literal, Some(guess.kind()))
        } else {
            let path = FieldPath::parse(path).map_err(|expected| FilesError::Setting {
                field: format!("columns.{name}"),
                value: path.clone(),
                expected: "the path of a field",
                help: Some(expected.to_owned()),
            })?;
            (path, seen.followed.as_ref().map(Guess::kind))
        };
        let nothing_known = self.records == 0 && (self.names.is_empty() || !has_cells);
        let kind = match (wanted.kind(), kind) {
            (declared, Some(kind)) => declared.unwrap_or(kind),
            (declared, None) if nothing_known => declared.unwrap_or(Kind::Text),
            (_, None) => return Err(self.missing(name, &wanted.path)),
        };
        Ok(Column { name: name.clone(), path, kind, declared: wanted.declared.is_some() })
    }

    fn missing(&self, column: &str, path: &str) -> FilesError {
        let nested = FieldPath::parse(path).ok().filter(|_| !self.has_cells());
        let head = nested.map_or_else(|| path.to_owned(), |path| path.head);
        let help = if self.names.contains(&head) {
            Some(format!("the records have `{head}`, but nothing at `{path}`"))
        } else {
            suggest::help(&head, self.names.iter().map(String::as_str))
        };
        FilesError::Column { column: column.to_owned(), path: path.to_owned(), help }
    }

    fn has_cells(&self) -> bool {
        self.options.fields().are_cells()
    }
}
