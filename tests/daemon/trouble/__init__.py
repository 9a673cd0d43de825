"""A whole daemon in every kind of trouble, over HTTP and in virtual time."""
