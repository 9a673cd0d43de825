"""A feature for tests: licences that the whole cluster shares."""
