"""Histories of a bank: who did what when, and whether one serial bank could have answered so."""
