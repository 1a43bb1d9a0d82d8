"""The page for browsers: its files, and the tables that it explains values with. Has no part in what is measured."""
