//! What an aggregate with accumulators of its own has in common with the one that it wraps.

/// The methods of `AggregateUDFImpl` that the aggregate in `inner` answers.
macro_rules! as_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn aliases(&self) -> &[String] {
            self.inner.aliases()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }

        fn return_type(
            &self,
            types: &[datafusion::arrow::datatypes::DataType],
        ) -> datafusion::common::Result<datafusion::arrow::datatypes::DataType> {
            self.inner.inner().return_type(types)
        }

        fn coerce_types(
            &self,
            types: &[datafusion::arrow::datatypes::DataType],
        ) -> datafusion::common::Result<Vec<datafusion::arrow::datatypes::DataType>> {
            self.inner.inner().coerce_types(types)
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.inner.inner().documentation()
        }
    };
}

pub(super) use as_inner;
