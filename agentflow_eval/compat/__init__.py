"""Names and call shapes of other frameworks over this engine: change the import, keep the suite."""
