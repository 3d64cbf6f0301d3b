from .upload import Uploader, upload_all

__all__ = ["Uploader", "upload_all"]
