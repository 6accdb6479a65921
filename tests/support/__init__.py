"""What several tests share. Import as `from support.eventually import eventually`."""
